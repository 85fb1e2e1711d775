// The safetensors format: 8 bytes of header length, a JSON header, then the tensors' bytes.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/files/files.hpp"

namespace strata {

/// One tensor of a file. `begin` and `end` are bytes from the end of the header.
struct SafeTensor {
  std::string name;
  std::string dtype;  // the format's names: F32, BF16, U16, ...
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;

  uint64_t bytes() const noexcept { return end - begin; }
};

struct SafeTensorsHeader {
  std::vector<SafeTensor> tensors;  // ascending by `begin`
  std::map<std::string, std::string> metadata;
  /// Where the tensors' bytes begin in the file.
  uint64_t data_offset = 0;

  /// Null when there is none of that name.
  const SafeTensor* find(std::string_view name) const;
};

/// Bytes of one element, or 0 for a type the format does not have.
uint64_t safetensors_element_bytes(std::string_view dtype) noexcept;

/// The first bytes of a file with these tensors, in this order and without gaps; sets their
/// `begin` and `end`. The tensors' bytes then begin at a multiple of 8.
std::string write_safetensors_header(std::vector<SafeTensor>& tensors,
                                     const std::map<std::string, std::string>& metadata);

/// Reads and checks a header: length, JSON, types, shapes, and that the tensors cover the rest of
/// the file without gap or overlap. Throws ConfigError naming the file and what is wrong, IoError.
SafeTensorsHeader read_safetensors_header(File& file);

}  // namespace strata

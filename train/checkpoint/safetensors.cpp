#include "train/checkpoint/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/errors.hpp"
#include "runtime/files/file_io.hpp"
#include "train/checkpoint/json_depth.hpp"

namespace strata {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

/// What the format's own reader accepts.
constexpr uint64_t kMostHeaderBytes = 100'000'000;

[[noreturn]] void refuse(const File& file, const std::string& why) {
  throw ConfigError(fmt::format("{} is not a usable safetensors file: {}", file.name(), why));
}

/// A JSON number that is a count; false for anything else.
bool to_count(const nlohmann::json& j, uint64_t& out) {
  if (!j.is_number_unsigned()) return false;
  out = j.get<uint64_t>();
  return true;
}

SafeTensor parse_tensor(const File& file, const std::string& name, const nlohmann::json& j) {
  const auto bad = [&](const std::string& why) {
    refuse(file, fmt::format("tensor '{}' {}", name, why));
  };
  if (!j.is_object()) bad("is no object");
  SafeTensor t;
  t.name = name;
  const auto dtype = j.find("dtype"), shape = j.find("shape"), offsets = j.find("data_offsets");
  if (dtype == j.end() || !dtype->is_string()) bad("has no dtype");
  t.dtype = dtype->get<std::string>();
  uint64_t bytes = safetensors_element_bytes(t.dtype);
  if (bytes == 0) bad("has the unknown dtype '" + t.dtype + "'");
  if (shape == j.end() || !shape->is_array()) bad("has no shape");
  for (const auto& d : *shape) {
    uint64_t n = 0;
    if (!to_count(d, n) || n > uint64_t{1} << 48) bad("has a shape that is no list of sizes");
    if (n != 0 && bytes > (uint64_t{1} << 60) / n) bad("has a shape of too many elements");
    bytes *= n;
    t.shape.push_back(static_cast<int64_t>(n));
  }
  if (offsets == j.end() || !offsets->is_array() || offsets->size() != 2 ||
      !to_count((*offsets)[0], t.begin) || !to_count((*offsets)[1], t.end) || t.end < t.begin) {
    bad("has no data_offsets");
  }
  if (t.end - t.begin != bytes) {
    bad(fmt::format("has {} bytes where its shape and dtype need {}", t.end - t.begin, bytes));
  }
  return t;
}

}  // namespace

const SafeTensor* SafeTensorsHeader::find(std::string_view name) const {
  for (const SafeTensor& t : tensors) {
    if (t.name == name) return &t;
  }
  return nullptr;
}

uint64_t safetensors_element_bytes(std::string_view dtype) noexcept {
  constexpr std::pair<std::string_view, uint64_t> kTypes[] = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
      {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};
  for (const auto& [name, bytes] : kTypes) {
    if (name == dtype) return bytes;
  }
  return 0;
}

std::string write_safetensors_header(std::vector<SafeTensor>& tensors,
                                     const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json j = nlohmann::ordered_json::object();
  if (!metadata.empty()) j["__metadata__"] = metadata;
  uint64_t at = 0;
  for (SafeTensor& t : tensors) {
    uint64_t bytes = safetensors_element_bytes(t.dtype);
    for (const int64_t d : t.shape) bytes *= static_cast<uint64_t>(d);
    t.begin = at;
    t.end = at += bytes;
    j[t.name] = {{"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {t.begin, t.end}}};
  }
  std::string text = j.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t size = text.size();
  std::string out(sizeof size, '\0');
  std::memcpy(out.data(), &size, sizeof size);
  return out + text;
}

SafeTensorsHeader read_safetensors_header(File& file) {
  const uint64_t size = bytes_of(file);
  uint64_t length = 0;
  if (size < sizeof length) {
    refuse(file, fmt::format("it has {} bytes, not even a header's length", size));
  }
  read_all(file, std::as_writable_bytes(std::span(&length, 1)), 0, "header length");
  const uint64_t rest = size - sizeof length;
  if (length > kMostHeaderBytes || length > rest) {
    refuse(file, fmt::format("its header should have {} bytes, but {} follow", length, rest));
  }
  std::string text(length, '\0');
  read_all(file, std::as_writable_bytes(std::span(text)), sizeof length, "header");
  if (too_deep(text)) refuse(file, "its header is nested too deeply");
  const auto j = nlohmann::json::parse(text, nullptr, false);
  if (!j.is_object()) refuse(file, "its header is no JSON object");

  SafeTensorsHeader header;
  header.data_offset = sizeof length + length;
  for (const auto& [name, value] : j.items()) {
    if (name != "__metadata__") {
      header.tensors.push_back(parse_tensor(file, name, value));
      continue;
    }
    if (!value.is_object()) refuse(file, "its __metadata__ is no object");
    for (const auto& [key, v] : value.items()) {
      if (!v.is_string()) refuse(file, "its __metadata__ holds something that is no text");
      header.metadata[key] = v.get<std::string>();
    }
  }
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const SafeTensor& a, const SafeTensor& b) {
              return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
            });
  uint64_t at = 0;
  for (const SafeTensor& t : header.tensors) {
    if (t.begin != at) {
      refuse(file, fmt::format("tensor '{}' begins at byte {} where {} bytes come before it",
                               t.name, t.begin, at));
    }
    at = t.end;
  }
  if (at != rest - length) {
    refuse(file, fmt::format("its tensors need {} bytes after the header, but {} are there; it was "
                             "cut short or has other content",
                             at, rest - length));
  }
  return header;
}

}  // namespace strata

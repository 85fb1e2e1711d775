// Models by name.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "models/model.hpp"

namespace strata {

struct ModelOptions {
  BatchShape shape;
  DType dtype = DType::f32;
  /// Threads that kernels will run on: scratch is per thread.
  uint32_t threads = 1;
};

/// Throws ConfigError for an unknown name or a shape the model does not take.
std::unique_ptr<Model> make_model(std::string_view spec, const ModelOptions&);
/// The model's name with every dimension spelled out.
std::string model_name(std::string_view spec);
/// Libraries, instruction set and fixed blocks that decide the bits of the kernels.
std::string kernel_set();

}  // namespace strata

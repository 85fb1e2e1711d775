#include "models/registry.hpp"

#include "models/gpt2.hpp"
#include "models/host/matmul.hpp"
#include "runtime/kernels/isa.hpp"

namespace strata {

std::unique_ptr<Model> make_model(std::string_view spec, const ModelOptions& options) {
  return std::make_unique<Gpt2>(parse_gpt2(spec), options);
}

std::string model_name(std::string_view spec) { return parse_gpt2(spec).spec(); }

std::string kernel_set() { return host::matmul_library() + "," + kernels::isa_name(); }

}  // namespace strata

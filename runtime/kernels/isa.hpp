// Which SIMD target the kernels run on.
#pragma once

namespace strata::kernels {

/// Highway's name of the target chosen on this machine, e.g. "AVX3". For logs and the numerics key;
/// the kernels of this folder give the same bits on all of them.
const char* isa_name();

}  // namespace strata::kernels

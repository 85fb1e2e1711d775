#include "runtime/random.hpp"

#include <bit>
#include <cmath>
#include <cstddef>

namespace strata {
namespace {

__extension__ using Uint128 = unsigned __int128;

template <size_t N>
double polynomial(const double (&coefficients)[N], double x) noexcept {
  double sum = coefficients[N - 1];
  for (size_t i = N - 1; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

/// Natural logarithm of a normal positive double, to about 1e-16 relative: x = m * 2^e with m in
/// [sqrt(1/2), sqrt(2)), log m = 2 atanh((m - 1) / (m + 1)).
double log_portable(double x) noexcept {
  constexpr double kLn2 = 0.693147180559945309417;
  constexpr double kInverseOdd[] = {1.0,        1.0 / 3.0,  1.0 / 5.0,  1.0 / 7.0,  1.0 / 9.0,
                                    1.0 / 11.0, 1.0 / 13.0, 1.0 / 15.0, 1.0 / 17.0, 1.0 / 19.0};
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
  if (m > 1.41421356237309504880) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0);
  return exponent * kLn2 + 2.0 * s * polynomial(kInverseOdd, s * s);
}

/// The standard normal quantile of 0 < p < 1, to about 1e-16 relative.
double normal_quantile(double p) noexcept {
  constexpr double kCentreTop[] = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                   1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                   4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                   3.3430575583588128105e+4, 2.5090809287301226727e+3};
  constexpr double kCentreBottom[] = {1.0,
                                      4.2313330701600911252e+1,
                                      6.8718700749205790830e+2,
                                      5.3941960214247511077e+3,
                                      2.1213794301586595867e+4,
                                      3.9307895800092710610e+4,
                                      2.8729085735721942674e+4,
                                      5.2264952788528545610e+3};
  constexpr double kMiddleTop[] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                   5.76949722146069140550e0,  3.64784832476320460504e0,
                                   1.27045825245236838258e0,  2.41780725177450611770e-1,
                                   2.27238449892691845833e-2, 7.74545014278341407640e-4};
  constexpr double kMiddleBottom[] = {1.0,
                                      2.05319162663775882187e0,
                                      1.67638483018380384940e0,
                                      6.89767334985100004550e-1,
                                      1.48103976427480074590e-1,
                                      1.51986665636164571966e-2,
                                      5.47593808499534494600e-4,
                                      1.05075007164441684324e-9};
  constexpr double kFarTop[] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                1.78482653991729133580e0,  2.96560571828504891230e-1,
                                2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                2.71155556874348757815e-5, 2.01033439929228813265e-7};
  constexpr double kFarBottom[] = {1.0,
                                   5.99832206555887937690e-1,
                                   1.36929880922735805310e-1,
                                   1.48753612908506148525e-2,
                                   7.86869131145613259100e-4,
                                   1.84631831751005468180e-5,
                                   1.42151175831644588870e-7,
                                   2.04426310338993978564e-15};
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(kCentreTop, r) / polynomial(kCentreBottom, r);
  }
  const double r = std::sqrt(-log_portable(q < 0 ? p : 1.0 - p));
  const double z = r <= 5.0 ? polynomial(kMiddleTop, r - 1.6) / polynomial(kMiddleBottom, r - 1.6)
                            : polynomial(kFarTop, r - 5.0) / polynomial(kFarBottom, r - 5.0);
  return q < 0 ? -z : z;
}

}  // namespace

uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index) noexcept {
  constexpr uint64_t kMultiplier = 0xd2b74407b1ce6e93u;
  constexpr uint64_t kWeyl = 0x9e3779b97f4a7c15u;
  uint64_t x0 = index;
  uint64_t x1 = stream;
  for (uint64_t round = 0; round < 10; ++round) {
    const Uint128 product = static_cast<Uint128>(kMultiplier) * x0;
    x0 = static_cast<uint64_t>(product >> 64) ^ (seed + round * kWeyl) ^ x1;
    x1 = static_cast<uint64_t>(product);
  }
  return x0;
}

double random_unit(uint64_t seed, uint64_t stream, uint64_t index) noexcept {
  return static_cast<double>(random_bits(seed, stream, index) >> 11) * 0x1p-53;
}

uint64_t random_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t bound) noexcept {
  return static_cast<uint64_t>((static_cast<Uint128>(random_bits(seed, stream, index)) * bound) >>
                               64);
}

float random_normal(uint64_t seed, uint64_t stream, uint64_t index) noexcept {
  // Midpoints of 2^52 cells: exact in double, symmetric about 1/2, never 0 or 1.
  const double cell = static_cast<double>(random_bits(seed, stream, index) >> 12);
  return static_cast<float>(normal_quantile((cell + 0.5) * 0x1p-52));
}

}  // namespace strata

// Random changes to a valid input, for whatever parses.
#pragma once
#include <cstdlib>
#include <random>
#include <string>

namespace strata {

/// Inputs a fuzz test tries: STRATA_FUZZ_RUNS, or few enough for every day.
inline uint64_t fuzz_runs() {
  const char* const text = std::getenv("STRATA_FUZZ_RUNS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20'000;
}

/// One to four changes: bytes replaced, dropped, repeated or cut off, digits changed, or pieces
/// that parsers trip over put in.
inline std::string mutate(std::string s, std::mt19937_64& random) {
  static constexpr const char* kPieces[] = {"{",
                                            "}",
                                            "[",
                                            "]",
                                            "\"",
                                            ",",
                                            ":",
                                            "null",
                                            "-1",
                                            "1e9",
                                            "0.5",
                                            "\\u0000",
                                            "\xff",
                                            "18446744073709551615",
                                            "9223372036854775808",
                                            "true"};
  const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (size_t changes = 1 + pick(4); changes-- > 0 && !s.empty();) {
    const size_t at = pick(s.size());
    switch (pick(7)) {
      case 0: s[at] = static_cast<char>(random()); break;
      case 1: s[at] ^= static_cast<char>(1 << pick(8)); break;
      case 2: s.erase(at, 1 + pick(16)); break;
      case 3: s.insert(at, s.substr(at, 1 + pick(32))); break;
      case 4: s.resize(at); break;
      case 5: s.insert(at, kPieces[pick(std::size(kPieces))]); break;
      default:
        for (size_t i = at; i < s.size(); ++i) {
          if (s[i] < '0' || s[i] > '9') continue;
          s[i] = static_cast<char>('0' + pick(10));
          break;
        }
    }
  }
  return s;
}

}  // namespace strata

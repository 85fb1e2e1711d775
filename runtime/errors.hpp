// Exceptions of Strata. The number each carries is the exit code of the `strata` command.
#pragma once
#include <stdexcept>
#include <string>

namespace strata {

/// Base of every error: a message that says what, where, why and what to try, and an exit code.
class Error : public std::runtime_error {
 public:
  Error(int exit_code, const std::string& message)
      : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const noexcept { return exit_code_; }

 private:
  int exit_code_;
};

/// Declares an error class with a fixed exit code.
#define STRATA_ERROR_CLASS(Name, code)                                  \
  class Name : public Error {                                           \
   public:                                                              \
    explicit Name(const std::string& message) : Error(code, message) {} \
  }

/// An illegal state transition inside the library: a defect, not a user error.
STRATA_ERROR_CLASS(StateError, 1);
/// A file or the operating system failed.
STRATA_ERROR_CLASS(IoError, 1);
/// A flag, key, size, model, text or combination that is not valid.
STRATA_ERROR_CLASS(ConfigError, 2);
/// The run was proved not to fit its budgets, before anything was allocated.
STRATA_ERROR_CLASS(DoesNotFit, 3);
/// Two runs that must be bit-identical differ.
STRATA_ERROR_CLASS(VerificationFailed, 4);
/// The operating system refused memory that the budgets allowed.
STRATA_ERROR_CLASS(OutOfMemory, 5);
/// A loss, gradient or weight is NaN or infinite.
STRATA_ERROR_CLASS(NonFinite, 6);
/// Another rank died or timed out.
STRATA_ERROR_CLASS(PeerFailure, 7);

#undef STRATA_ERROR_CLASS

}  // namespace strata

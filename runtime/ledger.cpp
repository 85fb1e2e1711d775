#include "runtime/ledger.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/errors.hpp"

namespace strata {

const char* name_of(Category c) noexcept {
  constexpr const char* kNames[] = {"weight",    "grad",    "optimizer", "activation",
                                    "workspace", "staging", "external"};
  return kNames[static_cast<size_t>(c)];
}

Reservation::Reservation(Reservation&& o) noexcept { *this = std::move(o); }

Reservation& Reservation::operator=(Reservation&& o) noexcept {
  if (this != &o) {
    if (ledger_ != nullptr) ledger_->release(tier_, category_, bytes_);
    ledger_ = std::exchange(o.ledger_, nullptr);
    tier_ = o.tier_;
    category_ = o.category_;
    bytes_ = o.bytes_;
  }
  return *this;
}

Reservation::~Reservation() {
  if (ledger_ != nullptr) ledger_->release(tier_, category_, bytes_);
}

Reservation Ledger::reserve(Tier t, Category c, size_t bytes) {
  charge(t, c, bytes);
  return {this, t, c, bytes};
}

void Ledger::charge(Tier t, Category c, size_t bytes) {
  Account& a = accounts_[static_cast<size_t>(t)];
  const size_t left = limit(t) - a.total;
  if (bytes > left) {
    throw DoesNotFit(std::string("out of ") + name_of(t) + " memory: " + std::to_string(bytes) +
                     " bytes for " + name_of(c) + ", " + std::to_string(a.total) + " of " +
                     std::to_string(limit(t)) + " in use, short by " +
                     std::to_string(bytes - left));
  }
  size_t& now = a.now[static_cast<size_t>(c)];
  now += bytes;
  a.total += bytes;
  a.peak[static_cast<size_t>(c)] = std::max(a.peak[static_cast<size_t>(c)], now);
  a.total_peak = std::max(a.total_peak, a.total);
}

void Ledger::release(Tier t, Category c, size_t bytes) noexcept {
  Account& a = accounts_[static_cast<size_t>(t)];
  a.now[static_cast<size_t>(c)] -= bytes;
  a.total -= bytes;
}

size_t Ledger::now(Tier t) const noexcept { return accounts_[static_cast<size_t>(t)].total; }
size_t Ledger::now(Tier t, Category c) const noexcept {
  return accounts_[static_cast<size_t>(t)].now[static_cast<size_t>(c)];
}
size_t Ledger::peak(Tier t) const noexcept { return accounts_[static_cast<size_t>(t)].total_peak; }
size_t Ledger::peak(Tier t, Category c) const noexcept {
  return accounts_[static_cast<size_t>(t)].peak[static_cast<size_t>(c)];
}

void Ledger::reset_peaks() noexcept {
  for (Account& a : accounts_) {
    a.peak = a.now;
    a.total_peak = a.total;
  }
}

}  // namespace strata

#include "offload/roofline.hpp"

#include <algorithm>

namespace strata {
namespace {

/// For so many seconds of reads and writes, each alone.
double drive_seconds(double read, double write, const VirtualRates& rates) {
  const double read_share = mixed_share(rates, Resource::nvme_read);
  const double write_share = mixed_share(rates, Resource::nvme_write);
  const double both = std::min(read / read_share, write / write_share);
  const double mixed = both + (read - both * read_share) + (write - both * write_share);
  return std::min(mixed, read + write);
}

}  // namespace

Roofline roofline(const std::array<double, kResources>& work, const VirtualRates& rates) {
  const auto of = [&](Resource r) { return work[static_cast<size_t>(r)]; };
  Roofline most{0, name_of(Resource::compute)};
  const auto consider = [&](double seconds, std::string_view name) {
    if (seconds > most.seconds) most = {seconds, name};
  };
  constexpr std::array<Resource, 4> kOnCores = {Resource::compute, Resource::update, Resource::h2d,
                                                Resource::d2h};
  double cores = 0;
  for (const Resource r : kOnCores) {
    cores += of(r);
    if (!rates.one_processor) consider(of(r), name_of(r));
  }
  if (rates.one_processor) consider(cores, "processor");
  const double read = of(Resource::nvme_read), write = of(Resource::nvme_write);
  if (rates.nvme_mixed_bytes_per_second > 0) {
    consider(drive_seconds(read, write, rates), "nvme");
  } else {
    consider(read, name_of(Resource::nvme_read));
    consider(write, name_of(Resource::nvme_write));
  }
  return most;
}

}  // namespace strata

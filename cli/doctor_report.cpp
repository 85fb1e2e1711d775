#include "cli/doctor_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/doctor_checks.hpp"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json directory_json(const DirectoryFacts& d) {
  Json drives = Json::array();
  for (const Drive& drive : d.drives) {
    drives.push_back({{"name", drive.name},
                      {"model", or_null(drive.model)},
                      {"rotational", or_null(drive.rotational)}});
  }
  return {{"path", d.path},
          {"problem", or_null(d.problem)},
          {"filesystem", or_null(d.filesystem)},
          {"read_only", or_null(d.read_only)},
          {"direct", or_null(d.direct)},
          {"block", or_null(d.block)},
          {"free_bytes", or_null(d.free_bytes)},
          {"drive", or_null(drive_names(d))},
          {"rotational", or_null(d.rotational())},
          {"drives", drives}};
}

size_t count_of(const std::vector<Check>& checks, Health health) {
  return static_cast<size_t>(std::count_if(checks.begin(), checks.end(),
                                           [&](const Check& c) { return c.health == health; }));
}

}  // namespace

const char* health_name(Health health) noexcept {
  constexpr const char* kNames[] = {"ok", "unknown", "slow", "bad"};
  return kNames[static_cast<size_t>(health)];
}

void Check::add(Health how, const std::string& cost_of_it, const std::string& fix_of_it) {
  health = std::max(health, how);
  cost += (cost.empty() ? "" : " ") + cost_of_it;
  fix += (fix.empty() ? "" : " ") + fix_of_it;
}

std::vector<Check> check_machine(const MachineFacts& facts) {
  std::vector<Check> checks = {
      check_cores(facts),      check_isa(facts),        check_memory(facts),
      check_swap(facts),       check_huge_pages(facts), check_locked_memory(facts),
      check_open_files(facts), check_uring(facts),      check_libraries(facts)};
  for (size_t i = 0; i < facts.directories.size(); ++i) {
    checks.push_back(check_directory(facts.directories, i));
  }
  return checks;
}

bool any_bad(const std::vector<Check>& checks) { return count_of(checks, Health::bad) != 0; }

std::string doctor_text(const std::vector<Check>& checks) {
  size_t name = 0, health = 0;
  for (const Check& c : checks) {
    name = std::max(name, c.name.size());
    health = std::max(health, std::string_view(health_name(c.health)).size());
  }
  std::string text;
  for (const Check& c : checks) {
    text +=
        fmt::format("{:<{}}  {:<{}}  {}\n", c.name, name, health_name(c.health), health, c.found);
    const std::string margin(name + health + 4, ' ');
    if (!c.cost.empty()) text += margin + "cost: " + c.cost + "\n";
    if (!c.fix.empty()) text += margin + "fix:  " + c.fix + "\n";
  }
  text += fmt::format("\n{} ok, {} slow, {} bad", count_of(checks, Health::ok),
                      count_of(checks, Health::slow), count_of(checks, Health::bad));
  const size_t unknown = count_of(checks, Health::unknown);
  return unknown == 0 ? text : text + fmt::format(", {} unknown", unknown);
}

nlohmann::ordered_json doctor_json(const std::vector<Check>& checks, const MachineFacts& facts) {
  Json list = Json::array(), directories = Json::array();
  for (const Check& c : checks) {
    list.push_back({{"name", c.name},
                    {"status", health_name(c.health)},
                    {"found", c.found},
                    {"cost", or_null(c.cost)},
                    {"fix", or_null(c.fix)}});
  }
  for (const DirectoryFacts& d : facts.directories) directories.push_back(directory_json(d));
  return {{"checks", list},
          {"cores", facts.topology.usable_cores},
          {"cpu_quota", or_null(facts.topology.cpu_quota)},
          {"memory_available_bytes", or_null(facts.available)},
          {"isa", facts.isa},
          {"io_uring", facts.no_uring.empty()},
          {"directories", directories}};
}

}  // namespace strata

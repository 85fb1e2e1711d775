#include <nlohmann/json.hpp>

#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "offload/policy/policy.hpp"

namespace strata {

int run_policies(const PoliciesArgs& args) {
  Output out(args.json);
  std::string text;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const PolicyInfo& p : policies()) {
    const std::string spec =
        std::string(p.name) + (p.parameters.empty() ? "" : ":" + std::string(p.parameters));
    text += (text.empty() ? "" : "\n") + spec + "\n    " + std::string(p.description);
    list.push_back(
        {{"name", p.name}, {"parameters", p.parameters}, {"description", p.description}});
  }
  out.text(text);
  out.result(nlohmann::ordered_json{{"policies", list}}.dump());
  return 0;
}

}  // namespace strata

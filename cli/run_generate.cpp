#include <nlohmann/json.hpp>

#include "cli/inference.hpp"
#include "cli/options_values.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "runtime/errors.hpp"
#include "train/generate.hpp"
#include "train/tokenizer.hpp"
#include "train/tokenizer_text.hpp"

namespace strata {
namespace {

/// Shows tokens as they come: text where they are bytes, else their ids, space separated.
class Shown {
 public:
  Shown(bool bytes, Output& out) : bytes_(bytes), out_(out) {}

  void add(std::span<const int32_t> tokens) {
    for (const int32_t t : tokens) {
      const auto byte = static_cast<uint8_t>(t);
      show(bytes_ ? text_.feed({&byte, 1}) : (all_.empty() ? "" : " ") + std::to_string(t));
    }
  }
  /// Ends the line; all that was shown.
  const std::string& end() {
    if (bytes_) show(text_.finish());
    out_.piece("\n");
    return all_;
  }

 private:
  void show(const std::string& text) {
    if (text.empty()) return;
    out_.piece(text);
    all_ += text;
  }

  bool bytes_;
  Output& out_;
  Utf8Text text_;
  std::string all_;
};

std::vector<int32_t> prompt_tokens(const std::string& prompt, bool bytes) {
  std::vector<int32_t> tokens;
  if (bytes) {
    const std::string& text = prompt.empty() ? "\n" : prompt;
    tokens.resize(text.size());
    ByteTokenizer::encode({reinterpret_cast<const uint8_t*>(text.data()), text.size()},
                          tokens.data());
    return tokens;
  }
  for (size_t at = 0; (at = prompt.find_first_not_of(' ', at)) != std::string::npos;) {
    const size_t end = std::min(prompt.find(' ', at), prompt.size());
    tokens.push_back(
        static_cast<int32_t>(parse_count("--prompt", prompt.substr(at, end - at), 0, INT32_MAX)));
    at = end;
  }
  if (tokens.empty()) {
    throw ConfigError(
        "generate: --prompt is missing; this model's tokens are not bytes: give their ids, "
        "separated by spaces");
  }
  return tokens;
}

}  // namespace

int run_generate(const GenerateArgs& args) {
  Output out(args.json);
  Inference model(args.run, args.budget, Mode::generate);
  const bool bytes = model.workload().model().vocabulary() == ByteTokenizer::kVocabulary;
  const std::vector<int32_t> prompt = prompt_tokens(args.prompt, bytes);
  Shown shown(bytes, out);
  Generator generator(model.workload(), model.session());
  // The first token is there, so nothing is wrong with the prompt, before any of it is shown.
  bool first = true;
  const auto tokens = generator.run(
      prompt, {args.tokens, {args.temperature, args.top_k, args.seed}}, [&](int32_t token) {
        if (first && !args.prompt.empty()) shown.add(prompt);
        first = false;
        shown.add({&token, 1});
        return true;
      });
  const std::string& text = shown.end();
  auto j = nlohmann::ordered_json::parse(model.json());
  j["prompt"] = prompt;
  j["tokens"] = tokens;
  if (bytes) j["text"] = text;
  out.result(j.dump());
  return 0;
}

}  // namespace strata

// `strata inspect`.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/output.hpp"
#include "cli/run_source.hpp"
#include "cli/sizes.hpp"
#include "cli/verbs.hpp"
#include "runtime/errors.hpp"
#include "runtime/files/watched_files.hpp"
#include "runtime/hash.hpp"
#include "train/checkpoint/inspect.hpp"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

/// Rows for people and objects for programs, of one file after another.
class Tensors {
 public:
  Tensors() : rows_({{"tensor", "type", "shape", "least", "most", "hash", ""}}) {}

  /// `expected`: hashes by name, for those known.
  void add_file(const std::string& path, const std::map<std::string, uint64_t>& expected) {
    inspect_safetensors(watched_files(), path, [&](const TensorSummary& s) {
      const auto known = expected.find(s.tensor.name);
      const bool damaged = known != expected.end() && known->second != s.hash;
      if (damaged && damaged_.empty()) damaged_ = s.tensor.name + " in " + path;
      elems_ += s.elems;
      bytes_ += s.tensor.bytes();
      std::string remark = damaged ? "DAMAGED: not what was saved" : "";
      if (s.nonfinite != 0) remark += fmt::format("{} elements are not finite", s.nonfinite);
      rows_.push_back(
          {s.tensor.name, s.tensor.dtype, fmt::format("{}", fmt::join(s.tensor.shape, "x")),
           s.has_range ? fmt::format("{:.4g}", s.least) : "-",
           s.has_range ? fmt::format("{:.4g}", s.most) : "-", hash_text(s.hash), remark});
      Json j = {{"name", s.tensor.name},     {"dtype", s.tensor.dtype}, {"shape", s.tensor.shape},
                {"least", nullptr},          {"most", nullptr},         {"nonfinite", s.nonfinite},
                {"hash", hash_text(s.hash)}, {"damaged", damaged}};
      if (s.has_range) {
        j["least"] = s.least;
        j["most"] = s.most;
      }
      json_.push_back(std::move(j));
    });
  }

  std::string table() const {
    return aligned_table(rows_) + fmt::format("\n\n{} tensors, {} elements, {}", rows_.size() - 1,
                                              elems_, format_bytes(bytes_));
  }
  const Json& json() const { return json_; }
  /// The first tensor that is not what was saved; empty: all are.
  const std::string& damaged() const { return damaged_; }

 private:
  std::vector<std::vector<std::string>> rows_;
  Json json_ = Json::array();
  uint64_t elems_ = 0, bytes_ = 0;
  std::string damaged_;
};

}  // namespace

int run_inspect(const InspectArgs& args) {
  Output out(args.json);
  Tensors tensors;
  Json j;
  std::error_code error;
  if (std::filesystem::is_regular_file(args.path, error)) {
    tensors.add_file(args.path, {});
    j["file"] = args.path;
  } else {
    const FoundCheckpoint found = find_checkpoint(args.path);
    const Manifest& m = found.manifest;
    for (const auto& f : m.files) {
      std::map<std::string, uint64_t> expected;
      for (const CheckpointTensor& t : m.tensors) {
        if (t.file == f.name) expected[t.key] = t.hash;
      }
      tensors.add_file(found.entry.path + "/" + f.name, expected);
    }
    std::string flags;
    for (const auto& [flag, value] : m.flags) {
      flags.append(" ").append(flag).append(value.empty() ? "" : " ").append(value);
    }
    out.text(
        fmt::format("Checkpoint  {}\nModel       {}\nStep        {}, after {} tokens\n"
                    "Numerics    {}\nFlags      {}\n",
                    found.entry.path, m.model, m.step, m.tokens, m.numerics_key, flags));
    j = {{"checkpoint", found.entry.path},
         {"model", m.model},
         {"step", m.step},
         {"tokens", m.tokens},
         {"numerics_key", m.numerics_key}};
  }
  out.text(tensors.table());
  j["tensors"] = tensors.json();
  out.result(j.dump());
  if (!tensors.damaged().empty()) {
    throw IoError(tensors.damaged() +
                  " does not hold what was saved: the drive or the file is damaged; use another "
                  "checkpoint of the run");
  }
  return 0;
}

}  // namespace strata

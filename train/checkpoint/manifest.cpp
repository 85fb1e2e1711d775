#include "train/checkpoint/manifest.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/errors.hpp"
#include "runtime/hash.hpp"
#include "train/checkpoint/json_depth.hpp"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

uint64_t hash_of(const std::string& text) {
  Hasher h;
  h.text(text);
  return h.digest();
}

/// Reads values of the types expected, or throws with the key.
class Fields {
 public:
  Fields(const Json& j, const std::string& where) : j_(j), where_(where) {
    if (!j.is_object()) refuse("holds something else than an object");
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw ConfigError(where_ + " is not a usable manifest: it " + why);
  }
  const Json& at(const char* key) const {
    const auto it = j_.find(key);
    if (it == j_.end()) refuse(fmt::format("has no '{}'", key));
    return *it;
  }
  uint64_t count(const char* key) const {
    if (!at(key).is_number_unsigned()) refuse(fmt::format("has no whole number as '{}'", key));
    return at(key).get<uint64_t>();
  }
  std::string text(const char* key) const {
    if (!at(key).is_string()) refuse(fmt::format("has no text as '{}'", key));
    return at(key).get<std::string>();
  }
  uint64_t hash(const char* key) const {
    const std::string digits = text(key);
    if (digits.size() != 16 || digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
      refuse(fmt::format("has no hash as '{}'", key));
    }
    return std::stoull(digits, nullptr, 16);
  }
  const Json& list(const char* key) const {
    if (!at(key).is_array()) refuse(fmt::format("has no list as '{}'", key));
    return at(key);
  }

 private:
  const Json& j_;
  const std::string& where_;
};

/// A name of a file within the checkpoint's folder.
std::string file_name(const Fields& f, const char* key) {
  std::string name = f.text(key);
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
    f.refuse(fmt::format("names the file '{}' outside its folder", name));
  }
  return name;
}

/// Key and value of each word "key=value"; other words extend the value before.
std::map<std::string, std::string> words_of(const std::string& numerics_key) {
  std::map<std::string, std::string> out;
  std::istringstream in(numerics_key);
  std::string last;
  for (std::string word; in >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      out[last] += " " + word;
      continue;
    }
    last = word.substr(0, equals);
    out[last] = word.substr(equals + 1);
  }
  return out;
}

}  // namespace

const CheckpointTensor* Manifest::find(const std::string& tensor, const std::string& plane) const {
  for (const CheckpointTensor& t : tensors) {
    if (t.tensor == tensor && t.plane == plane) return &t;
  }
  return nullptr;
}

std::string to_text(const Manifest& m) {
  Json j = {{"format", Manifest::kFormat},
            {"step", m.step},
            {"tokens", m.tokens},
            {"model", m.model},
            {"numerics_key", m.numerics_key},
            {"numerics_hash", hash_text(hash_of(m.numerics_key))}};
  j["flags"] = Json::array();
  for (const auto& [flag, value] : m.flags) j["flags"].push_back({flag, value});
  j["files"] = Json::array();
  for (const auto& f : m.files) {
    j["files"].push_back({{"name", f.name},
                          {"bytes", f.bytes},
                          {"header_bytes", f.header_bytes},
                          {"header_hash", hash_text(f.header_hash)}});
  }
  j["tensors"] = Json::array();
  for (const CheckpointTensor& t : m.tensors) {
    j["tensors"].push_back({{"tensor", t.tensor},
                            {"plane", t.plane},
                            {"file", t.file},
                            {"key", t.key},
                            {"first", t.first},
                            {"elems", t.elems},
                            {"hash", hash_text(t.hash)}});
  }
  j["hash"] = hash_text(hash_of(j.dump()));
  return j.dump(1) + "\n";
}

Manifest parse_manifest(const std::string& text, const std::string& where) {
  Json j = too_deep(text) ? Json() : Json::parse(text, nullptr, false);
  const Fields top(j, where);
  const uint64_t format = top.count("format");
  if (format != Manifest::kFormat) {
    top.refuse(
        fmt::format("has format {}, and this version reads format {}", format, Manifest::kFormat));
  }
  const uint64_t hash = top.hash("hash");
  Manifest m;
  m.step = top.count("step");
  m.tokens = top.count("tokens");
  m.model = top.text("model");
  m.numerics_key = top.text("numerics_key");
  for (const Json& f : top.list("flags")) {
    if (!f.is_array() || f.size() != 2 || !f[0].is_string() || !f[1].is_string()) {
      top.refuse("has a flag that is no pair of texts");
    }
    m.flags.emplace_back(f[0].get<std::string>(), f[1].get<std::string>());
  }
  for (const Json& f : top.list("files")) {
    const Fields fields(f, where);
    m.files.push_back({file_name(fields, "name"), fields.count("bytes"),
                       fields.count("header_bytes"), fields.hash("header_hash")});
  }
  for (const Json& t : top.list("tensors")) {
    const Fields f(t, where);
    m.tensors.push_back({f.text("tensor"), f.text("plane"), file_name(f, "file"), f.text("key"),
                         f.count("first"), f.count("elems"), f.hash("hash")});
  }
  j.erase("hash");
  if (hash_of(j.dump()) != hash) top.refuse("was changed: its hash does not match");
  return m;
}

std::string describe_key_difference(const std::string& there, const std::string& here) {
  const auto a = words_of(there), b = words_of(here);
  std::string out;
  const auto add = [&](const std::string& key, const std::string& x, const std::string& y) {
    out += fmt::format("{}{}: {} there, {} here", out.empty() ? "" : "; ", key, x, y);
  };
  for (const auto& [key, x] : a) {
    const auto it = b.find(key);
    if (it == b.end()) {
      add(key, x, "none");
    } else if (it->second != x) {
      add(key, x, it->second);
    }
  }
  for (const auto& [key, y] : b) {
    if (!a.contains(key)) add(key, "none", y);
  }
  return out;
}

}  // namespace strata

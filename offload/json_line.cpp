#include "offload/json_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/errors.hpp"

namespace strata {

using Json = nlohmann::json;

struct JsonLine::Object {
  Json j;

  const Json& at(const JsonLine& line, const char* key) const {
    const auto it = j.find(key);
    if (it == j.end()) line.refuse(fmt::format("has no '{}'; add it", key));
    return *it;
  }
  const Json& list(const JsonLine& line, const char* key) const {
    const Json& value = at(line, key);
    if (!value.is_array()) line.refuse(fmt::format("'{}' is no list; write [...]", key));
    return value;
  }
};

JsonLine::JsonLine(std::string_view file, uint64_t number, std::string_view text)
    : file_(file), number_(number), object_(std::make_unique<Object>()) {
  size_t keys = 0;
  bool nested = false;
  // Drops what is nested deeper, so that no input costs stack or memory beyond its own length.
  const auto keep = [&](int depth, Json::parse_event_t event, Json&) {
    using Event = Json::parse_event_t;
    if (event == Event::key && depth == 1) ++keys;
    const bool deep =
        (event == Event::object_start && depth > 0) || (event == Event::array_start && depth > 2);
    nested |= deep;
    return !deep;
  };
  try {
    object_->j = Json::parse(text.begin(), text.end(), keep);
  } catch (const Json::parse_error& e) {
    refuse(fmt::format("is not JSON at byte {}; write one object a line", e.byte));
  } catch (const Json::exception&) {
    refuse("holds a number that is out of range; check it");
  }
  if (nested) refuse("holds an object, or lists of lists of lists; no key has such a value");
  if (!object_->j.is_object()) refuse("is no JSON object; write one object a line");
  if (keys != object_->j.size()) refuse("names a key twice; leave out one of them");
}

JsonLine::~JsonLine() = default;

void JsonLine::refuse(const std::string& why) const {
  throw ConfigError(fmt::format("{}:{}: {}", file_, number_, why));
}

bool JsonLine::has(const char* key) const { return object_->j.contains(key); }

void JsonLine::only(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, value] : object_->j.items()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    refuse(fmt::format("has the unknown key '{}'; known here: {}", key, fmt::join(keys, ", ")));
  }
}

uint64_t JsonLine::count(const char* key, uint64_t most) const {
  const Json& value = object_->at(*this, key);
  if (!value.is_number_unsigned() || value.get<uint64_t>() > most) {
    refuse(fmt::format("'{}' is no whole number from 0 to {}; check it and its unit", key, most));
  }
  return value.get<uint64_t>();
}

double JsonLine::number(const char* key) const {
  const Json& value = object_->at(*this, key);
  const double x = value.is_number() ? value.get<double>() : NAN;
  if (!std::isfinite(x)) refuse(fmt::format("'{}' is no number; write one, or leave it out", key));
  return x;
}

bool JsonLine::flag(const char* key) const {
  const Json& value = object_->at(*this, key);
  if (!value.is_boolean()) refuse(fmt::format("'{}' is neither true nor false", key));
  return value.get<bool>();
}

std::string JsonLine::text(const char* key) const {
  const Json& value = object_->at(*this, key);
  if (!value.is_string()) refuse(fmt::format("'{}' is no text; write \"...\"", key));
  auto text = value.get<std::string>();
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (text.empty() || std::any_of(text.begin(), text.end(), is_control)) {
    refuse(fmt::format("'{}' is empty or has control characters; write plain text", key));
  }
  return text;
}

std::vector<uint64_t> JsonLine::counts(const char* key) const {
  const Json& list = object_->list(*this, key);
  std::vector<uint64_t> out;
  out.reserve(list.size());
  for (const Json& n : list) {
    if (!n.is_number_unsigned()) {
      refuse(fmt::format("'{}' holds something else than whole numbers", key));
    }
    out.push_back(n.get<uint64_t>());
  }
  return out;
}

std::vector<std::pair<uint64_t, std::string>> JsonLine::labelled_counts(const char* key) const {
  const Json& list = object_->list(*this, key);
  std::vector<std::pair<uint64_t, std::string>> out;
  out.reserve(list.size());
  for (const Json& item : list) {
    if (!item.is_array() || item.size() != 2 || !item[0].is_number_unsigned() ||
        !item[1].is_string()) {
      refuse(fmt::format("'{}' holds something else than lists [number, \"text\"]", key));
    }
    out.emplace_back(item[0].get<uint64_t>(), item[1].get<std::string>());
  }
  return out;
}

}  // namespace strata

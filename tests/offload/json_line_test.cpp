#include "offload/json_line.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "runtime/errors.hpp"

namespace strata {
namespace {

std::string refused(const std::string& text, const std::function<void(const JsonLine&)>& read) {
  try {
    read(JsonLine("file", 7, text));
  } catch (const ConfigError& e) {
    const std::string message = e.what();
    EXPECT_EQ(message.rfind("file:7: ", 0), 0u) << message;
    return message.substr(8);
  }
  return "taken";
}

std::string refused(const std::string& text) {
  return refused(text, [](const JsonLine&) {});
}

TEST(JsonLine, GivesWhatIsThere) {
  const JsonLine line("file", 7,
                      R"( {"n": 18446744073709551615, "x": -2.5, "yes": true, "t": "\u00e4 b",)"
                      R"( "list": [3, 0], "none": [], "pairs": [[1, "a"], [1, ""]]})"
                      "\r");
  EXPECT_TRUE(line.has("n"));
  EXPECT_FALSE(line.has("m"));
  EXPECT_EQ(line.count("n", UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(line.number("x"), -2.5);
  EXPECT_TRUE(line.flag("yes"));
  EXPECT_EQ(line.text("t"), "\u00e4 b");
  EXPECT_EQ(line.counts("list"), (std::vector<uint64_t>{3, 0}));
  EXPECT_EQ(line.counts("none"), std::vector<uint64_t>{});
  const std::vector<std::pair<uint64_t, std::string>> pairs = {{1, "a"}, {1, ""}};
  EXPECT_EQ(line.labelled_counts("pairs"), pairs);
  EXPECT_NO_THROW(line.only({"n", "x", "yes", "t", "list", "none", "pairs", "more"}));
}

TEST(JsonLine, RefusesWhatIsNoPlainObject) {
  EXPECT_EQ(refused(""), "is not JSON at byte 1; write one object a line");
  EXPECT_EQ(refused("{\"a\":1"), "is not JSON at byte 7; write one object a line");
  EXPECT_EQ(refused("[1]"), "is no JSON object; write one object a line");
  EXPECT_EQ(refused("{\"a\":1,\"b\":2,\"a\":3}"), "names a key twice; leave out one of them");
  EXPECT_EQ(refused("{\"a\":1e400}"), "holds a number that is out of range; check it");
  EXPECT_EQ(refused("{\"a\":{}}").rfind("holds an object", 0), 0u);
  EXPECT_EQ(refused("{\"a\":[[[1]]]}").rfind("holds an object", 0), 0u);
  EXPECT_EQ(refused("{\"a\":\"\xff\"}").rfind("is not JSON at byte", 0), 0u);
  EXPECT_EQ(refused("{\"a\":[[1]]}"), "taken");
  // Neither costs stack.
  EXPECT_EQ(refused("{\"a\":" + std::string(1'000'000, '[')).rfind("is not JSON", 0), 0u);
  EXPECT_EQ(refused("{\"a\":" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}")
                .rfind("holds an object", 0),
            0u);
}

TEST(JsonLine, RefusesValuesOfOtherTypes) {
  const std::string text = R"({"s":"1","n":5,"x":0.5,"neg":-1,"l":[1,"a"],"c":"a\u0007"})";
  const auto has = [&](auto read, const char* part) {
    const std::string message = refused(text, read);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has([](const JsonLine& l) { l.only({"s", "n"}); }, "has the unknown key 'c'; known here: s, n");
  has([](const JsonLine& l) { l.count("m", 9); }, "has no 'm'; add it");
  for (const char* key : {"s", "x", "neg", "l"}) {
    has([&](const JsonLine& l) { l.count(key, 9); }, "is no whole number from 0 to 9");
  }
  has([](const JsonLine& l) { l.count("n", 4); }, "'n' is no whole number from 0 to 4");
  has([](const JsonLine& l) { l.number("s"); }, "'s' is no number");
  has([](const JsonLine& l) { l.flag("n"); }, "'n' is neither true nor false");
  has([](const JsonLine& l) { l.text("n"); }, "'n' is no text");
  has([](const JsonLine& l) { l.text("c"); }, "'c' is empty or has control characters");
  has([](const JsonLine& l) { l.counts("n"); }, "'n' is no list");
  has([](const JsonLine& l) { l.counts("l"); }, "'l' holds something else than whole numbers");
  has([](const JsonLine& l) { l.labelled_counts("l"); }, "'l' holds something else than lists");
}

}  // namespace
}  // namespace strata

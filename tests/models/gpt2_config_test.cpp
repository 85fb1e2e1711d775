#include "models/gpt2_config.hpp"

#include <gtest/gtest.h>

#include "models/registry.hpp"
#include "runtime/errors.hpp"

namespace strata {
namespace {

/// The message with which a model's name is refused.
std::string error(const std::string& spec) {
  try {
    parse_gpt2(spec);
  } catch (const ConfigError& e) {
    return e.what();
  }
  ADD_FAILURE() << "accepted: '" << spec << "'";
  return "";
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(Gpt2Config, PresetsAreThePublishedModels) {
  ASSERT_EQ(gpt2_presets().size(), 4u);
  // Sizes of the published checkpoints, tied embeddings once.
  const std::pair<const char*, uint64_t> published[] = {{"gpt2", 124439808},
                                                        {"gpt2-medium", 354823168},
                                                        {"gpt2-large", 774030080},
                                                        {"gpt2-xl", 1557611200}};
  for (const auto& [name, parameters] : published) {
    const Gpt2Config c = parse_gpt2(name);
    EXPECT_EQ(c.parameters(), parameters) << name;
    EXPECT_EQ(c.vocabulary, 50257u);
    EXPECT_EQ(c.positions, 1024u);
    EXPECT_EQ(c.width / c.heads, 64u);
  }
}

TEST(Gpt2Config, ShapesAreRead) {
  EXPECT_EQ(parse_gpt2("gpt2:L6,D384,H6,V256,T128"), (Gpt2Config{6, 384, 6, 256, 128}));
  EXPECT_EQ(parse_gpt2("gpt2:T128,V256,H6,D384,L6"), (Gpt2Config{6, 384, 6, 256, 128}))
      << "in any order";
  EXPECT_EQ(parse_gpt2("gpt2:L2"), (Gpt2Config{2, 768, 12, 50257, 1024})) << "the rest as in gpt2";
  EXPECT_EQ(parse_gpt2("gpt2:L1000").layers, 1000u);
}

TEST(Gpt2Config, SpecIsItsOwnName) {
  for (const char* spec : {"gpt2", "gpt2-xl", "gpt2:L3,D48,H3,V61,T10"}) {
    const Gpt2Config c = parse_gpt2(spec);
    EXPECT_EQ(parse_gpt2(c.spec()), c);
    EXPECT_EQ(model_name(spec), c.spec());
  }
  EXPECT_EQ(model_name("gpt2"), "gpt2:L12,D768,H12,V50257,T1024");
}

TEST(Gpt2Config, WhatIsNotAModelIsRefusedByName) {
  for (const char* spec : {"", "gpt3", "GPT2", "gpt2 ", "gpt2-", "gpt2xl"}) {
    EXPECT_CONTAINS(error(spec), "no such model");
  }
  const std::string text = error("gpt3");
  for (const char* part :
       {"'gpt3'", "gpt2,", "gpt2-medium", "gpt2-large", "gpt2-xl", "gpt2:L6,D384,H6,V256,T256"}) {
    EXPECT_CONTAINS(text, part) << "what was meant, and what is known";
  }
}

TEST(Gpt2Config, ShapesThatAreNotLegalSayWhy) {
  EXPECT_CONTAINS(error("gpt2:X3"), "unknown letter 'X'");
  EXPECT_CONTAINS(error("gpt2:l3"), "unknown letter 'l'");
  EXPECT_CONTAINS(error("gpt2:L2,L3"), "'L' is given twice");
  EXPECT_CONTAINS(error("gpt2:L2,,D32"), "empty item");
  EXPECT_CONTAINS(error("gpt2:L2,"), "empty item");
  EXPECT_CONTAINS(error("gpt2:"), "empty item");
  for (const char* item : {"L", "L0", "L-1", "L+1", "L2.5", "L2x", "L 2", "L1e3", "L16777217",
                           "L99999999999999999999", "2"}) {
    EXPECT_CONTAINS(error("gpt2:" + std::string(item) + ",D32"), "'" + std::string(item) + "'");
  }
  EXPECT_CONTAINS(error("gpt2:D100,H3"), "width 100 is not a multiple of 3 heads");
  EXPECT_CONTAINS(error("gpt2:L1001"), "more than 1000 layers");
  EXPECT_CONTAINS(error("gpt2:T131073"), "more than 131072 positions");
  EXPECT_CONTAINS(error("gpt2:D100"), "not a multiple of 12 heads");
}

TEST(Gpt2Config, CountsWhatTheModelHas) {
  for (const char* spec : {"gpt2:L2,D32,H2,V97,T16", "gpt2:L1,D16,H1,V1,T1", "gpt2-medium"}) {
    const auto model = make_model(spec, {{1, 1, 1}, DType::f32, 1});
    uint64_t elems = 0;
    for (const ParamSpec& p : model->params()) elems += p.tied_to ? 0 : p.elems();
    EXPECT_EQ(elems, parse_gpt2(spec).parameters()) << spec;
  }
}

}  // namespace
}  // namespace strata

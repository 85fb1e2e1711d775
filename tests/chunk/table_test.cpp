#include "chunk/table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "runtime/errors.hpp"

namespace strata {
namespace {

UnitList units(UnitId a) { return {{a, 0}, 1}; }

constexpr ObjId kWeight{0, Plane::weight};

template <class F>
void expect_refused(const ChunkTable& table, ObjId id, const std::string& why, F&& f) {
  const Object before = table.at(id);
  try {
    f();
    ADD_FAILURE() << "not refused: " << why;
  } catch (const StateError& e) {
    const std::string message = e.what();
    EXPECT_NE(message.find(why), std::string::npos) << message;
    EXPECT_NE(message.find("chunk " + std::to_string(id.chunk)), std::string::npos) << message;
    EXPECT_NE(message.find(std::string("plane ") + name_of(id.plane)), std::string::npos);
    EXPECT_NE(message.find(table.history(id)), std::string::npos) << message;
  }
  const Object& after = table.at(id);
  EXPECT_EQ(after.version, before.version) << why << ": a refusal changes nothing";
  EXPECT_EQ(after.pins, before.pins) << why;
  for (size_t p = 0; p < kPlaces; ++p) {
    EXPECT_EQ(after.copies[p].version, before.copies[p].version) << why;
    EXPECT_EQ(after.copies[p].units.count, before.copies[p].units.count) << why;
  }
}

TEST(ChunkTable, AWeightGoesToTheDeviceAndBack) {
  ChunkTable t(2);
  EXPECT_EQ(t.chunks(), 2u);
  t.create(kWeight, Place::host);
  t.attach(kWeight, Place::host, units(7));
  EXPECT_FALSE(t.at(kWeight).home_current()) << "holds nothing yet";
  t.written(kWeight, Place::host);
  EXPECT_TRUE(t.at(kWeight).home_current());
  t.attach(kWeight, Place::device, units(3));
  EXPECT_FALSE(t.at(kWeight).current(Place::device));
  t.landed(kWeight, Place::device);
  EXPECT_TRUE(t.at(kWeight).current(Place::device));
  t.written(kWeight, Place::device);
  EXPECT_FALSE(t.at(kWeight).home_current()) << "stale";
  t.landed(kWeight, Place::host);
  EXPECT_TRUE(t.at(kWeight).home_current());
  const UnitList back = t.drop(kWeight, Place::device);
  EXPECT_EQ(back.count, 1u);
  EXPECT_EQ(back.ids[0], 3u);
  EXPECT_FALSE(t.at(kWeight).at(Place::device).present());
  const ObjId other{1, Plane::weight};
  EXPECT_FALSE(t.at(other).exists);
}

TEST(ChunkTable, AKilledGradientHoldsNothingAndVersionsNeverRepeat) {
  const ObjId grad{0, Plane::grad};
  ChunkTable t(1);
  t.create(grad, Place::host);
  t.attach(grad, Place::device, {{1, 2}, 2});
  t.written(grad, Place::device);
  const uint64_t first = t.at(grad).version;
  t.kill(grad);
  EXPECT_EQ(t.at(grad).version, 0u);
  EXPECT_FALSE(t.at(grad).current(Place::device));
  EXPECT_TRUE(t.at(grad).at(Place::device).present()) << "units stay";
  t.written(grad, Place::device);
  EXPECT_GT(t.at(grad).version, first);
  t.kill(grad);
  const UnitList back = t.drop(grad, Place::device);
  EXPECT_EQ(back.count, 2u);
  EXPECT_EQ(back.ids, (std::array<UnitId, 2>{1, 2}));
}

TEST(ChunkTable, UnitsOfAnotherVersionTakeThePlaceOfStaleOnes) {
  ChunkTable t(1);
  t.create(kWeight, Place::nvme);
  t.attach(kWeight, Place::nvme, units(7));
  t.written(kWeight, Place::nvme);
  UnitList other = units(9);
  expect_refused(t, kWeight, "the only current copy was exchanged",
                 [&] { t.exchange(kWeight, Place::nvme, other); });
  t.attach(kWeight, Place::device, units(1));
  t.landed(kWeight, Place::device);
  t.written(kWeight, Place::device);
  UnitList two = {{3, 4}, 2};
  expect_refused(t, kWeight, "exchanged for none alike",
                 [&] { t.exchange(kWeight, Place::nvme, two); });
  expect_refused(t, kWeight, "exchanged for none alike",
                 [&] { t.exchange(kWeight, Place::host, other); });
  t.exchange(kWeight, Place::nvme, other);
  EXPECT_EQ(other.ids[0], 7u) << "the older version";
  EXPECT_EQ(t.at(kWeight).at(Place::nvme).units.ids[0], 9u);
  EXPECT_FALSE(t.at(kWeight).home_current());
  t.landed(kWeight, Place::nvme);
  EXPECT_TRUE(t.at(kWeight).home_current());
  // And back: the newest content is given up.
  t.kill(kWeight);
  t.exchange(kWeight, Place::nvme, other);
  t.written(kWeight, Place::nvme);
  EXPECT_EQ(t.at(kWeight).at(Place::nvme).units.ids[0], 7u);
  EXPECT_FALSE(t.at(kWeight).current(Place::device));
}

TEST(ChunkTable, RefusesTransitionsOfObjectsThatWereNotCreated) {
  ChunkTable t(3);
  const ObjId id{2, Plane::m};
  expect_refused(t, id, "not created", [&] { t.attach(id, Place::host, units(0)); });
  expect_refused(t, id, "nothing can land", [&] { t.landed(id, Place::host); });
  expect_refused(t, id, "was written", [&] { t.written(id, Place::host); });
  expect_refused(t, id, "was killed", [&] { t.kill(id); });
  expect_refused(t, id, "was dropped", [&] { t.drop(id, Place::device); });
  expect_refused(t, id, "cannot be pinned", [&] { t.pin(id); });
  expect_refused(t, id, "unpinned more often", [&] { t.unpin(id); });
}

TEST(ChunkTable, RefusesWhatTheStateDoesNotAllow) {
  ChunkTable t(1);
  t.create(kWeight, Place::host);
  expect_refused(t, kWeight, "created twice", [&] { t.create(kWeight, Place::device); });
  expect_refused(t, kWeight, "without units", [&] { t.attach(kWeight, Place::host, {}); });
  t.attach(kWeight, Place::host, units(0));
  expect_refused(t, kWeight, "where a copy is", [&] { t.attach(kWeight, Place::host, units(1)); });
  expect_refused(t, kWeight, "nothing can land", [&] { t.landed(kWeight, Place::host); });
  expect_refused(t, kWeight, "nothing can land", [&] { t.landed(kWeight, Place::device); });
  expect_refused(t, kWeight, "not there was written", [&] { t.written(kWeight, Place::device); });
  t.written(kWeight, Place::host);
  expect_refused(t, kWeight, "nothing can land", [&] { t.landed(kWeight, Place::device); });
  expect_refused(t, kWeight, "not there was dropped", [&] { t.drop(kWeight, Place::device); });
  expect_refused(t, kWeight, "home copy was dropped", [&] { t.drop(kWeight, Place::host); });
  t.attach(kWeight, Place::device, units(5));
  t.landed(kWeight, Place::device);
  t.pin(kWeight);
  t.pin(kWeight);
  t.unpin(kWeight);
  expect_refused(t, kWeight, "pinned object was dropped", [&] { t.drop(kWeight, Place::device); });
  t.unpin(kWeight);
  expect_refused(t, kWeight, "unpinned more often", [&] { t.unpin(kWeight); });
  t.written(kWeight, Place::device);
  expect_refused(t, kWeight, "only current copy", [&] { t.drop(kWeight, Place::device); });
  t.landed(kWeight, Place::host);
  EXPECT_EQ(t.drop(kWeight, Place::device).ids[0], 5u);
}

TEST(ChunkTable, TheMessageTellsTheObjectsOwnStory) {
  ChunkTable t(2);
  const ObjId other{1, Plane::v};
  t.create(kWeight, Place::host);
  t.create(other, Place::device);
  t.attach(kWeight, Place::host, units(0));
  t.attach(other, Place::device, units(0));
  t.written(kWeight, Place::host);
  const std::string story = t.history(kWeight);
  EXPECT_EQ(story,
            "  #0 create host version 0\n"
            "  #2 attach host version 0\n"
            "  #4 written host version 1\n");
  EXPECT_EQ(t.history(other), "  #1 create device version 0\n  #3 attach device version 0\n");
  // Old events make room for new ones.
  for (int i = 0; i < 2000; ++i) t.written(kWeight, Place::host);
  EXPECT_EQ(t.history(other), "");
  EXPECT_NE(t.history(kWeight).find("version 2001\n"), std::string::npos);
  EXPECT_EQ(t.history(kWeight).find("create"), std::string::npos);
}

TEST(ChunkTable, TearDownDetachesAnything) {
  ChunkTable t(1);
  EXPECT_EQ(t.detach(kWeight, Place::host).count, 0u);
  t.create(kWeight, Place::host);
  t.attach(kWeight, Place::host, units(4));
  t.written(kWeight, Place::host);
  t.pin(kWeight);
  EXPECT_EQ(t.detach(kWeight, Place::host).ids[0], 4u);
  EXPECT_EQ(t.detach(kWeight, Place::host).count, 0u);
}

/// The same state by other means: content is a number, a copy holds a content or nothing.
struct Model {
  bool exists = false;
  Place home = Place::host;
  int pins = 0;
  uint64_t newest = 0;
  struct Held {
    UnitList units;
    uint64_t content = 0;
  };
  std::map<Place, Held> copies;

  bool has(Place p) const { return copies.contains(p); }
  bool current(Place p) const { return newest != 0 && has(p) && copies.at(p).content == newest; }
};

enum Step { kCreate, kAttach, kLand, kWrite, kKill, kDrop, kPin, kUnpin, kSteps };

bool legal(const Model& m, Step step, Place p) {
  const auto elsewhere = [&] {
    for (const Place other : kAllPlaces) {
      if (other != p && m.current(other)) return true;
    }
    return false;
  };
  switch (step) {
    case kCreate: return !m.exists;
    case kAttach: return m.exists && !m.has(p);
    case kLand: return m.has(p) && m.newest != 0;
    case kWrite: return m.has(p);
    case kKill:
    case kPin: return m.exists;
    case kDrop: return m.has(p) && m.pins == 0 && m.home != p && (!m.current(p) || elsewhere());
    default: return m.pins > 0;
  }
}

class Player {
 public:
  explicit Player(uint64_t seed) : draw_(seed), table_(kChunks), models_(kChunks * kPlanes) {}

  void step() {
    const ObjId id{static_cast<ChunkId>(draw_() % kChunks), static_cast<Plane>(draw_() % kPlanes)};
    const Place p = kAllPlaces[draw_() % kPlaces];
    const auto what = static_cast<Step>(draw_() % kSteps);
    Model& m = models_[id.chunk * kPlanes + static_cast<size_t>(id.plane)];
    if (!legal(m, what, p)) {
      ++refused_;
      EXPECT_THROW(apply(m, id, what, p), StateError) << what;
      return;
    }
    ++done_;
    EXPECT_NO_THROW(apply(m, id, what, p)) << what;
    change(m, what, p);
  }

  /// All objects against their models, and what must hold whatever happened.
  void check() const {
    for (size_t i = 0; i < models_.size(); ++i) {
      const ObjId id{static_cast<ChunkId>(i / kPlanes), static_cast<Plane>(i % kPlanes)};
      const Object& o = table_.at(id);
      const Model& m = models_[i];
      ASSERT_EQ(o.exists, m.exists);
      ASSERT_EQ(o.pins, m.pins);
      ASSERT_LE(o.version, o.last_version);
      ASSERT_EQ(o.version != 0, m.newest != 0);
      bool any = false;
      for (const Place p : kAllPlaces) {
        ASSERT_EQ(o.at(p).present(), m.has(p));
        ASSERT_EQ(o.current(p), m.current(p));
        ASSERT_LE(o.at(p).version, o.version) << "a copy is never ahead of its object";
        any |= o.current(p);
        if (!m.has(p)) continue;
        ASSERT_EQ(o.at(p).units.count, m.copies.at(p).units.count);
        ASSERT_EQ(o.at(p).units.ids, m.copies.at(p).units.ids);
      }
      if (m.exists) {
        ASSERT_EQ(o.home, m.home);
        ASSERT_EQ(o.home_current(), m.current(m.home));
      }
      ASSERT_EQ(any, o.version != 0) << "content is somewhere";
    }
  }

  int done() const { return done_; }
  int refused() const { return refused_; }

 private:
  static constexpr uint32_t kChunks = 2;

  void apply(const Model& m, ObjId id, Step what, Place p) {
    switch (what) {
      case kCreate: table_.create(id, p); break;
      case kAttach:
        next_ = {{static_cast<UnitId>(draw_() % 100), static_cast<UnitId>(draw_() % 100)},
                 static_cast<uint32_t>(1 + draw_() % 2)};
        table_.attach(id, p, next_);
        break;
      case kLand: table_.landed(id, p); break;
      case kWrite: table_.written(id, p); break;
      case kKill: table_.kill(id); break;
      case kDrop: {
        const UnitList got = table_.drop(id, p);
        EXPECT_EQ(got.count, m.copies.at(p).units.count);
        EXPECT_EQ(got.ids, m.copies.at(p).units.ids);
        break;
      }
      case kPin: table_.pin(id); break;
      default: table_.unpin(id);
    }
  }

  void change(Model& m, Step what, Place p) {
    switch (what) {
      case kCreate:
        m.exists = true;
        m.home = p;
        break;
      case kAttach: m.copies[p] = {next_, 0}; break;
      case kLand: m.copies[p].content = m.newest; break;
      case kWrite: m.newest = m.copies[p].content = ++content_; break;
      case kKill:
        m.newest = 0;
        for (auto& [place, held] : m.copies) held.content = 0;
        break;
      case kDrop: m.copies.erase(p); break;
      case kPin: ++m.pins; break;
      default: --m.pins;
    }
  }

  std::mt19937_64 draw_;
  ChunkTable table_;
  std::vector<Model> models_;
  UnitList next_;
  uint64_t content_ = 0;
  int done_ = 0, refused_ = 0;
};

TEST(ChunkTable, AgreesWithAModelOverRandomEvents) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Player player(seed);
    for (int i = 0; i < 1500; ++i) {
      player.step();
      player.check();
      if (HasFailure()) return;
    }
    EXPECT_GT(player.done(), 300);
    EXPECT_GT(player.refused(), 300);
  }
}

}  // namespace
}  // namespace strata

#include "chunk/layout.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "runtime/errors.hpp"
#include "runtime/hash.hpp"

namespace strata {

const char* name_of(Plane p) noexcept {
  constexpr const char* kNames[] = {"weight", "grad", "remainder", "m", "v"};
  return kNames[static_cast<size_t>(p)];
}

namespace {

uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

/// Far above any network; products of sizes below it do not overflow.
constexpr int64_t kMaxElems = int64_t{1} << 48;

void check_shape(const ParamSpec& p) {
  int64_t n = 1;
  for (const int64_t d : p.shape) {
    if (d <= 0 || d > kMaxElems / n) {
      throw ConfigError("parameter " + p.name + " has a size of " + std::to_string(d) +
                        " in its shape; sizes are positive and a tensor has at most 2^48 elements");
    }
    n *= d;
  }
}

void check_ranks(uint32_t ranks) {
  if (ranks == 0) throw ConfigError("a shard group has at least one rank");
}

void check(std::span<const ParamSpec> params, const LayoutOptions& o) {
  check_ranks(o.ranks);
  const uint64_t quantum = ChunkLayout::kQuantum * o.ranks;
  if (o.chunk_elems == 0 || o.chunk_elems % quantum != 0) {
    throw ConfigError("chunk size of " + std::to_string(o.chunk_elems) +
                      " elements is not a positive multiple of " + std::to_string(quantum) +
                      " (2048 elements for each of " + std::to_string(o.ranks) +
                      " ranks); round it up to " +
                      std::to_string(round_up(std::max<uint64_t>(o.chunk_elems, 1), quantum)));
  }
  for (size_t i = 0; i < params.size(); ++i) {
    const ParamSpec& p = params[i];
    check_shape(p);
    if (!p.tied_to) continue;
    const ParamId t = *p.tied_to;
    if (t >= i || params[t].tied_to || params[t].elems() != p.elems() ||
        params[t].dtype != p.dtype || params[t].group != p.group ||
        params[t].trainable != p.trainable) {
      throw ConfigError("parameter " + p.name +
                        " is tied to something that is not an earlier, untied parameter of the "
                        "same size, dtype, group and trainability");
    }
  }
}

/// Appends chunks and pieces for one class after another in parameter order.
struct Packer {
  uint64_t chunk_elems;
  std::vector<ChunkClass> classes;
  std::vector<uint16_t> chunk_class;
  std::vector<bool> spanned;
  std::vector<Piece> pieces;
  struct Open {
    ChunkId chunk;
    uint64_t used;
  };
  std::vector<Open> open;  // one a class

  uint16_t class_index(const ParamSpec& p) {
    const ChunkClass c{p.group, p.dtype, p.trainable};
    const auto it = std::find(classes.begin(), classes.end(), c);
    const auto index = static_cast<uint16_t>(it - classes.begin());
    if (it == classes.end()) {
      classes.push_back(c);
      open.push_back({0, chunk_elems});
    }
    return index;
  }

  void fresh(uint16_t k) {
    if (chunk_class.size() == ChunkLayout::kMostChunks) {
      throw ConfigError("chunks of " + std::to_string(chunk_elems) + " elements are more than " +
                        std::to_string(ChunkLayout::kMostChunks) +
                        " for these parameters; choose larger chunks");
    }
    open[k] = {static_cast<ChunkId>(chunk_class.size()), 0};
    chunk_class.push_back(k);
    spanned.push_back(false);
  }

  void place(ParamId id, const ParamSpec& p) {
    const uint16_t k = class_index(p);
    const uint64_t n = p.elems();
    if (n > chunk_elems - open[k].used) fresh(k);
    const bool spans = n > chunk_elems;
    for (uint64_t done = 0; done < n;) {
      if (open[k].used == chunk_elems) fresh(k);
      const uint64_t take = std::min(n - done, chunk_elems - open[k].used);
      pieces.push_back({id, open[k].chunk, done, open[k].used, take});
      if (spans) spanned[open[k].chunk] = true;
      open[k].used += round_up(take, ChunkLayout::kAlignElems);
      done += take;
    }
  }
};

Packer pack(std::span<const ParamSpec> params, uint64_t chunk_elems) {
  Packer packer{.chunk_elems = chunk_elems,
                .classes = {},
                .chunk_class = {},
                .spanned = {},
                .pieces = {},
                .open = {}};
  for (ParamId i = 0; i < params.size(); ++i) {
    if (!params[i].tied_to) packer.place(i, params[i]);
  }
  return packer;
}

/// Groups piece indices by a key into a flat array and prefix offsets.
template <class Key>
void group(std::vector<Piece> pieces, size_t keys, Key key, std::vector<Piece>& out,
           std::vector<uint32_t>& begin) {
  std::stable_sort(pieces.begin(), pieces.end(),
                   [&](const Piece& a, const Piece& b) { return key(a) < key(b); });
  begin.assign(keys + 1, 0);
  for (const Piece& p : pieces) ++begin[key(p) + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  out = std::move(pieces);
}

}  // namespace

ChunkLayout ChunkLayout::build(std::span<const ParamSpec> params, const LayoutOptions& options) {
  check(params, options);
  Packer packer = pack(params, options.chunk_elems);
  ChunkLayout l;
  l.params_.assign(params.begin(), params.end());
  l.options_ = options;
  l.storage_.resize(params.size());
  for (ParamId i = 0; i < params.size(); ++i) l.storage_[i] = params[i].tied_to.value_or(i);
  l.classes_ = std::move(packer.classes);
  l.chunk_class_ = std::move(packer.chunk_class);
  l.spanned_ = std::move(packer.spanned);
  group(
      packer.pieces, params.size(), [](const Piece& p) { return p.param; }, l.by_param_,
      l.param_begin_);
  group(
      packer.pieces, l.chunk_class_.size(), [](const Piece& p) { return p.chunk; }, l.by_chunk_,
      l.chunk_begin_);
  return l;
}

uint64_t ChunkLayout::chunk_elems_of(std::span<const ParamSpec> params, uint64_t chunk_bytes) {
  if (chunk_bytes == 0 || params.empty()) return search_chunk_elems(params, 1);
  const uint64_t elems = chunk_bytes / size_of(params.front().dtype);
  return std::max(kQuantum, (elems + kQuantum - 1) / kQuantum * kQuantum);
}

uint64_t ChunkLayout::search_chunk_elems(std::span<const ParamSpec> params, uint32_t ranks) {
  check_ranks(ranks);
  for (const ParamSpec& p : params) check_shape(p);
  const uint64_t quantum = kQuantum * ranks;
  std::vector<uint64_t> matrices;
  uint64_t total = 0;
  for (const ParamSpec& p : params) {
    if (p.tied_to) continue;
    total += p.elems();
    if (p.shape.size() >= 2) matrices.push_back(p.elems());
  }
  if (matrices.empty()) return round_up(std::max<uint64_t>(total, 1), quantum);
  std::sort(matrices.begin(), matrices.end());
  // Embeddings span chunks instead of setting their size. They are few, and in a network of few
  // layers far larger than a layer's matrices.
  const uint64_t bound = 4 * matrices[matrices.size() / 2];
  const size_t kept = matrices.size() - matrices.size() / 16;
  uint64_t largest = 0;
  for (size_t i = 0; i < kept; ++i) {
    if (matrices[i] <= bound) largest = matrices[i];
  }
  // Next-fit fills every two chunks by more than one.
  const uint64_t first = round_up(std::max(largest, total >> 16), quantum);
  const uint64_t step = round_up(std::max<uint64_t>(first / 256, 1), quantum);
  uint64_t best = first;
  uint64_t best_total = UINT64_MAX;
  for (uint64_t c = first; c <= first + first / 4; c += step) {
    const uint64_t padded = pack(params, c).chunk_class.size() * c;
    if (padded < best_total) {
      best_total = padded;
      best = c;
    }
  }
  return best;
}

std::span<const Piece> ChunkLayout::of_param(ParamId p) const noexcept {
  const ParamId s = storage_[p];
  return {by_param_.data() + param_begin_[s], by_param_.data() + param_begin_[s + 1]};
}

std::span<const Piece> ChunkLayout::in_chunk(ChunkId c) const noexcept {
  return {by_chunk_.data() + chunk_begin_[c], by_chunk_.data() + chunk_begin_[c + 1]};
}

std::pair<uint64_t, uint64_t> ChunkLayout::shard(uint32_t rank) const noexcept {
  const uint64_t slice = options_.chunk_elems / options_.ranks;
  return {rank * slice, (rank + 1) * slice};
}

double ChunkLayout::padding() const noexcept {
  uint64_t used = 0;
  for (const Piece& p : by_chunk_) used += p.elems;
  if (used == 0) return 0;
  return static_cast<double>(chunks() * chunk_elems()) / static_cast<double>(used) - 1;
}

uint64_t ChunkLayout::hash() const {
  Hasher h;
  h.number(options_.chunk_elems);
  h.number(options_.ranks);
  for (ChunkId c = 0; c < chunks(); ++c) {
    const ChunkClass& k = class_of(c);
    h.number(k.group);
    h.number(static_cast<uint64_t>(k.dtype));
    h.number(k.trainable);
  }
  for (const Piece& p : by_chunk_) {
    h.number(p.param);
    h.number(p.chunk);
    h.number(p.param_offset);
    h.number(p.chunk_offset);
    h.number(p.elems);
  }
  return h.digest();
}

}  // namespace strata

#include "train/checkpoint/checkpoint.hpp"

#include <fmt/format.h>

#include <map>

#include "models/registry.hpp"
#include "runtime/errors.hpp"
#include "runtime/files/file_io.hpp"
#include "runtime/hash.hpp"
#include "train/checkpoint/safetensors.hpp"

namespace strata {
namespace {

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kRecords = "optimizer.safetensors";
constexpr const char* kManifest = "manifest.json";
/// A thousand layers need less.
constexpr uint64_t kMostManifestBytes = 16 << 20;
/// Room for headers, manifest and what the file system itself needs.
constexpr uint64_t kSpareBytes = 8 << 20;
/// What the page cache may hold that is not on the drive yet.
constexpr uint64_t kUnsyncedBytes = 256 << 20;

/// A plane of a parameter, and where it is in a checkpoint.
struct Item {
  ParamId param;
  Plane plane;
  std::string file, key;
};

/// Everything of a session that is saved, in the order of its files.
std::vector<Item> items_of(const Workload& w) {
  std::vector<Item> weights, records;
  const auto& params = w.layout().params();
  for (ParamId p = 0; p < params.size(); ++p) {
    if (w.layout().storage_of(p) != p) continue;
    for (const Plane plane : state_planes(w, p)) {
      if (plane == Plane::weight) {
        weights.push_back({p, plane, kWeights, params[p].name});
      } else {
        records.push_back({p, plane, kRecords, name_of(plane) + ("." + params[p].name)});
      }
    }
  }
  weights.insert(weights.end(), records.begin(), records.end());
  return weights;
}

const char* dtype_of(const Workload& w, Plane plane) {
  if (plane == Plane::remainder) return "U16";
  return w.shape().element_bytes(plane) == 2 ? "BF16" : "F32";
}

std::string owner_of(const Workload& w, const Item& i) {
  return fmt::format("{} of {}", name_of(i.plane), w.layout().params()[i.param].name);
}

/// Writes the items of one file and adds what the manifest says of them.
void write_file(Files& files, const std::string& folder, const std::string& name,
                const std::vector<Item>& items, const Workload& w, Session& session,
                Manifest& manifest) {
  std::vector<SafeTensor> tensors;
  for (const Item& i : items) {
    if (i.file != name) continue;
    tensors.push_back({i.key, dtype_of(w, i.plane), w.layout().params()[i.param].shape});
  }
  if (tensors.empty()) return;
  const std::string header = write_safetensors_header(
      tensors, {{"format", "pt"}, {"strata_step", std::to_string(manifest.step)}});
  const auto file = files.create(folder + "/" + name);
  write_all(*file, std::as_bytes(std::span(header)), 0, "header");
  auto tensor = tensors.begin();
  uint64_t unsynced = 0;
  for (const Item& i : items) {
    if (i.file != name) continue;
    const std::string owner = owner_of(w, i);
    Hasher hash;
    session.engine().visit(
        i.param, i.plane, [&](uint64_t offset, const std::byte* data, size_t bytes) {
          hash.bytes(data, bytes);
          write_all(*file, {data, bytes}, header.size() + tensor->begin + offset, owner);
          unsynced += bytes;
          if (unsynced < kUnsyncedBytes) return;
          sync_all(*file);
          unsynced = 0;
        });
    const ParamSpec& param = w.layout().params()[i.param];
    manifest.tensors.push_back(
        {param.name, name_of(i.plane), name, i.key, 0, param.elems(), hash.digest()});
    ++tensor;
  }
  sync_all(*file);
  manifest.files.push_back({name, header.size() + tensors.back().end, header.size(),
                            hash_bytes(header.data(), header.size())});
}

void require_space(Files& files, const std::string& folder, uint64_t bytes) {
  const uint64_t free = files.free_bytes(folder), needed = bytes + kSpareBytes;
  if (free >= needed) return;
  throw IoError(fmt::format(
      "cannot save a checkpoint in {}: it needs {} bytes and {} are free; nothing was written, and "
      "earlier checkpoints are as they were; free space there, keep fewer (--keep-last), or save "
      "none (--no-checkpoint)",
      folder, needed, free));
}

/// Opens the files of a checkpoint as they are needed, with their headers.
class Reader {
 public:
  Reader(Files& files, const std::string& path) : files_(files), path_(path) {}

  struct Opened {
    std::unique_ptr<File> file;
    SafeTensorsHeader header;
  };
  const Opened& get(const std::string& name) {
    const auto it = opened_.find(name);
    if (it != opened_.end()) return it->second;
    Opened o;
    o.file = files_.open(path_ + "/" + name);
    o.header = read_safetensors_header(*o.file);
    return opened_.emplace(name, std::move(o)).first->second;
  }

 private:
  Files& files_;
  const std::string& path_;
  std::map<std::string, Opened> opened_;
};

}  // namespace

uint64_t checkpoint_bytes(const Workload& w) {
  uint64_t bytes = 0;
  for (const Item& i : items_of(w)) {
    bytes += w.layout().params()[i.param].elems() * w.shape().element_bytes(i.plane);
  }
  return bytes;
}

void require_room(CheckpointFolder& folder, const Workload& w) {
  try {
    const std::string path = folder.begin(0);
    folder.files().create(path + "/" + kManifest);
    require_space(folder.files(), path, checkpoint_bytes(w));
  } catch (...) {
    folder.abandon(0);
    throw;
  }
  folder.abandon(0);
}

CheckpointFolder::Entry save_checkpoint(CheckpointFolder& folder, Manifest manifest,
                                        const Workload& w, Session& session) {
  Files& files = folder.files();
  manifest.model = model_name(w.config().model);
  manifest.files.clear();
  manifest.tensors.clear();
  try {
    const std::string path = folder.begin(manifest.step);
    require_space(files, path, checkpoint_bytes(w));
    const std::vector<Item> items = items_of(w);
    for (const char* name : {kWeights, kRecords}) {
      write_file(files, path, name, items, w, session, manifest);
    }
    const std::string text = to_text(manifest);
    const auto file = files.create(path + "/" + kManifest);
    write_all(*file, std::as_bytes(std::span(text)), 0, "manifest");
    sync_all(*file);
    return folder.commit(manifest.step);
  } catch (...) {
    folder.abandon(manifest.step);
    throw;
  }
}

namespace {

uint64_t header_hash(File& file, uint64_t bytes) {
  std::vector<std::byte> block(std::min<uint64_t>(bytes, 1 << 20));
  Hasher hash;
  for (uint64_t at = 0; at < bytes; at += block.size()) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(block.size(), bytes - at));
    read_all(file, std::span(block).first(n), at, "header");
    hash.bytes(block.data(), n);
  }
  return hash.digest();
}

}  // namespace

Manifest open_checkpoint(Files& files, const std::string& path) {
  const std::string where = path + "/" + kManifest;
  Manifest m = parse_manifest(read_text(files, where, kMostManifestBytes), where);
  for (const auto& f : m.files) {
    const auto file = files.open(path + "/" + f.name);
    const uint64_t size = bytes_of(*file);
    if (size != f.bytes) {
      throw ConfigError(
          fmt::format("{} has {} bytes where its manifest says {}; it was cut short or "
                      "changed: use another checkpoint",
                      file->name(), size, f.bytes));
    }
    if (f.header_bytes <= size && header_hash(*file, f.header_bytes) == f.header_hash) continue;
    throw ConfigError(
        fmt::format("{} has another header than was saved (names, types, shapes or places of its "
                    "tensors); it was changed or is damaged: use another checkpoint",
                    file->name()));
  }
  return m;
}

void load_checkpoint(Files& files, const std::string& path, const Manifest& m, const Workload& w,
                     Session& session) {
  const auto other_model = [&](const std::string& why) {
    if (m.model == model_name(w.config().model)) {
      throw ConfigError(
          fmt::format("the checkpoint {} has another type, was changed or is damaged: {}; "
                      "use another",
                      path, why));
    }
    throw ConfigError(fmt::format("the checkpoint {} is of the model {}, not {}: {}", path, m.model,
                                  model_name(w.config().model), why));
  };
  Reader reader(files, path);
  for (const Item& i : items_of(w)) {
    const ParamSpec& param = w.layout().params()[i.param];
    const CheckpointTensor* const entry = m.find(param.name, name_of(i.plane));
    if (entry == nullptr) other_model("it has no " + owner_of(w, i));
    const Reader::Opened& from = reader.get(entry->file);
    const SafeTensor* const t = from.header.find(entry->key);
    if (t == nullptr) other_model(from.file->name() + " has no " + entry->key);
    if (t->shape != param.shape || t->dtype != dtype_of(w, i.plane)) {
      other_model(fmt::format("its {} has shape [{}] and type {}, where [{}] and {} are needed",
                              owner_of(w, i), fmt::join(t->shape, ", "), t->dtype,
                              fmt::join(param.shape, ", "), dtype_of(w, i.plane)));
    }
    if (entry->first != 0 || entry->elems != param.elems()) {
      other_model("its " + owner_of(w, i) + " is not whole");
    }
    const uint64_t begin = from.header.data_offset + t->begin;
    const std::string owner = owner_of(w, i);
    Hasher hash;
    session.engine().load(i.param, i.plane, [&](uint64_t offset, std::byte* to, size_t bytes) {
      read_all(*from.file, {to, bytes}, begin + offset, owner);
      hash.bytes(to, bytes);
    });
    if (hash.digest() != entry->hash) {
      throw IoError(fmt::format(
          "{} does not hold what was saved: the {} bytes at offset {} ({}) have another hash; the "
          "drive or the file is damaged: use another checkpoint of the run",
          from.file->name(), t->bytes(), begin, owner));
    }
  }
}

}  // namespace strata

#pragma once
// Where the processes of a run find each other: a small store of texts that rank 0 (or torchrun's
// agent) serves over TCP.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tril/distributed/world.h"

namespace tril {

/// The join and the talk before the collective operations are there. All errors are PeerErrors.
class Rendezvous {
 public:
  /// Joins, and waits until all processes have: at most `join_seconds`.
  explicit Rendezvous(const World& world, double join_seconds = 300);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// For tests: a store in this process, which all its threads share.
  static std::shared_ptr<void> shared_store();
  Rendezvous(const World& world, const std::shared_ptr<void>& shared_store);

  const World& world() const { return world_; }

  /// Leaves a text for the others.
  void publish(const std::string& key, const std::string& text);
  /// The text, as soon as it is there: however long another process works on it, as long as the
  /// store answers. Nothing when should_stop said so.
  std::optional<std::string> await(const std::string& key,
                                   const std::function<bool()>& should_stop);
  /// The text if it is there now. Nothing also when the store does not answer.
  std::optional<std::string> find(const std::string& key);

  /// The end: says that this process needs the store no more. Who serves it waits for the others,
  /// at most so long. Throws nothing.
  void leave(double most_seconds) noexcept;

  struct Store;
  /// For the process group.
  Store& store() { return *store_; }

 private:
  World world_;
  std::unique_ptr<Store> store_;
  bool left_ = false;
};

}  // namespace tril

#pragma once
// Jobs on several threads whose results come back in the order the jobs were given: so what is made
// of them does not depend on how many threads there are.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace tril {

/// The threads of a user's choice: 0 means one per core.
inline size_t worker_count(int64_t n_threads) {
  if (n_threads > 0) return static_cast<size_t>(n_threads);
  return std::max<size_t>(1, std::thread::hardware_concurrency());
}

/// A bounded number of jobs is under way at any time, so memory does not grow with their number.
/// An exception of a job comes out where its result would have, hence the first in order. The
/// destructor drops jobs that have not begun and waits for those that have.
template <typename Result>
class OrderedWorkers {
 public:
  /// `consume` takes each result, on the thread that calls add() and finish(). `poll` is called
  /// there a few times per second while waiting, and may throw.
  OrderedWorkers(size_t n_threads,
                 std::function<void(Result)> consume,
                 std::function<void()> poll = {})
      : consume_(std::move(consume)), poll_(std::move(poll)), max_jobs_(2 * n_threads + 1) {
    threads_.reserve(n_threads);
    for (size_t i = 0; i < n_threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~OrderedWorkers() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  OrderedWorkers(const OrderedWorkers&) = delete;
  OrderedWorkers& operator=(const OrderedWorkers&) = delete;

  /// May first wait for, and consume, results of earlier jobs.
  void add(std::function<Result()> job) {
    while (jobs_.size() >= max_jobs_) consume_first();
    auto slot = std::make_shared<Slot>();
    slot->job = std::move(job);
    jobs_.push_back(slot);
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(slot));
    }
    wake_.notify_one();
  }
  /// Waits for and consumes the rest.
  void finish() {
    while (!jobs_.empty()) consume_first();
  }

 private:
  struct Slot {
    std::function<Result()> job;
    std::optional<Result> result;
    std::exception_ptr error;
    bool done = false;
  };

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      const std::shared_ptr<Slot> slot = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      std::optional<Result> result;
      std::exception_ptr error;
      try {
        result.emplace(slot->job());
      } catch (...) {
        error = std::current_exception();
      }
      slot->job = {};  // frees its input
      lock.lock();
      slot->result = std::move(result);
      slot->error = error;
      slot->done = true;
      done_.notify_one();
    }
  }

  void consume_first() {
    const std::shared_ptr<Slot> slot = jobs_.front();
    {
      std::unique_lock lock(mutex_);
      while (!done_.wait_for(lock, std::chrono::milliseconds(50), [&] { return slot->done; })) {
        if (!poll_) continue;
        lock.unlock();
        poll_();
        lock.lock();
      }
    }
    jobs_.pop_front();
    if (slot->error) std::rethrow_exception(slot->error);
    consume_(std::move(*slot->result));
  }

  std::function<void(Result)> consume_;
  std::function<void()> poll_;
  size_t max_jobs_;
  std::deque<std::shared_ptr<Slot>> jobs_;  // in order; of the calling thread
  std::mutex mutex_;                        // for everything below, and the slots' results
  std::condition_variable wake_;
  std::condition_variable done_;
  std::deque<std::shared_ptr<Slot>> waiting_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tril

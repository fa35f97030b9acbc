#pragma once
// Token ids in an HDF5 file: one dataset `tokens` of one dimension, as train-llm-from-scratch
// writes them. libhdf5 is loaded when the first such file is opened, so nothing else needs it.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace tril {

class Hdf5Tokens {
 public:
  /// Throws DataError: libhdf5 is not on this machine (says how to get it), the file cannot be
  /// read, there is no dataset `tokens`, or it is no list of integers.
  explicit Hdf5Tokens(const std::filesystem::path& path);
  ~Hdf5Tokens();
  Hdf5Tokens(const Hdf5Tokens&) = delete;
  Hdf5Tokens& operator=(const Hdf5Tokens&) = delete;

  int64_t size() const;
  /// Ids [start, start + out.size()), which must lie inside (assert). Throws DataError.
  void read(int64_t start, std::span<int64_t> out) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Can this machine read HDF5 files?
bool has_hdf5();

}  // namespace tril

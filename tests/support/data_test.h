#pragma once
// A folder for texts with a cache of its own, and training data opened from it.

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "support/temp_dir.h"
#include "support/text_files.h"
#include "tril/base/error.h"
#include "tril/base/json.h"
#include "tril/data/training_data.h"

namespace tril::testing {

class DataTest {
 public:
  DataTest() {
    if (const char* old = std::getenv("TRIL_CACHE")) old_ = old;
    setenv("TRIL_CACHE", (dir_ / "cache").c_str(), 1);
  }
  ~DataTest() {
    if (old_) {
      setenv("TRIL_CACHE", old_->c_str(), 1);
    } else {
      unsetenv("TRIL_CACHE");
    }
  }
  DataTest(const DataTest&) = delete;
  DataTest& operator=(const DataTest&) = delete;

  std::filesystem::path text(const std::string& name, std::string_view content) const {
    return write_text(dir_ / name, content);
  }
  std::filesystem::path operator/(const std::string& name) const { return dir_ / name; }

 private:
  TempDir dir_;
  std::optional<std::string> old_;
};

inline TrainingData open_data(const DataConfig& config,
                              int64_t context_length,
                              std::shared_ptr<const Tokenizer> tokenizer = nullptr) {
  return open_training_data(config, context_length, std::move(tokenizer), {});
}

/// The message of the DataError that opening must give.
inline std::string data_error_of(const DataConfig& config,
                                 int64_t context_length,
                                 std::shared_ptr<const Tokenizer> tokenizer = nullptr) {
  try {
    open_data(config, context_length, std::move(tokenizer));
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace tril::testing

#include "tril/plot/tensorboard.h"

#include <fstream>

#include "support/catch.h"
#include "support/temp_dir.h"
#include "support/text_files.h"
#include "tril/base/json.h"

using namespace tril;
using namespace tril::testing;

namespace {

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::vector<int64_t> steps_of(const std::string& bytes) {
  std::vector<int64_t> steps;
  for (const auto& event : decode_tensorboard(bytes)) {
    if (!event.scalars.empty()) steps.push_back(event.step);
  }
  return steps;
}

}  // namespace

TEST_CASE("CRC-32C agrees with the check value of its definition", "[plot]") {
  CHECK(crc32c("123456789") == 0xE3069283U);
  CHECK(crc32c("") == 0);
}

TEST_CASE("event files equal those of TensorBoard's own package, byte for byte", "[plot][golden]") {
  const Json golden = read_json_file(
      std::filesystem::path(TRIL_SOURCE_DIR) / "tests/golden/tensorboard.json", FileRole::kData);
  std::string ours = tensorboard_file_header(golden.at("header_wall_time").get<double>());
  for (const auto& json : golden.at("events")) {
    TensorboardEvent event{.wall_seconds = json.at("wall_time").get<double>(),
                           .step = json.at("step").get<int64_t>()};
    for (const auto& scalar : json.at("scalars")) {
      event.scalars.push_back({scalar[0].get<std::string>(), scalar[1].get<float>()});
    }
    ours += encode_tensorboard_event(event);
  }
  const std::string theirs = from_hex(golden.at("file").get<std::string>());
  CHECK(first_difference(ours, theirs) == -1);

  const auto events = decode_tensorboard(theirs);
  REQUIRE(events.size() == 4);
  CHECK(events[1].wall_seconds == 1700000000.25);
  CHECK(events[1].scalars.at(1).tag == "train/learning_rate");
  CHECK(events[1].scalars.at(1).value == 0.0003F);
  CHECK(events[3].step == int64_t{1} << 40);
}

TEST_CASE("an event file is cut back to a step, and a broken end goes", "[plot]") {
  const TempDir dir;
  const auto path = dir / "tb/events.out.tfevents.tril";
  {
    TensorboardWriter writer(path, 0);
    for (int64_t step = 1; step <= 5; ++step) {
      CHECK(writer.write({.wall_seconds = 10.0 + static_cast<double>(step),
                          .step = step,
                          .scalars = {{"train/loss", static_cast<float>(step)}}}));
    }
  }
  const std::string whole = read_text(path);
  CHECK(steps_of(whole) == std::vector<int64_t>{1, 2, 3, 4, 5});

  write_text(path, whole.substr(0, whole.size() - 7));  // a kill in the middle of the fifth
  {
    TensorboardWriter writer(path, 3);
    CHECK(writer.write({.wall_seconds = 20, .step = 4, .scalars = {{"train/loss", 4.5F}}}));
  }
  const auto events = decode_tensorboard(read_text(path));
  REQUIRE(events.size() == 5);
  CHECK(events[3].step == 3);
  CHECK(events[3].wall_seconds == 13.0);  // as it was written
  CHECK(events[4].scalars.front().value == 4.5F);

  write_text(path, "no event file at all");
  { const TensorboardWriter writer(path, 3); }
  CHECK(decode_tensorboard(read_text(path)).size() == 1);
}

TEST_CASE("damaged event files end the reading and nothing else", "[plot]") {
  std::string file = tensorboard_file_header(1);
  file += encode_tensorboard_event({.wall_seconds = 1, .step = 1, .scalars = {{"a", 1}}});
  file += encode_tensorboard_event({.wall_seconds = 2, .step = 2, .scalars = {{"a", 2}}});
  const size_t n_events = decode_tensorboard(file).size();
  REQUIRE(n_events == 3);
  for (size_t i = 0; i < file.size(); ++i) {
    std::string damaged = file;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    CHECK(decode_tensorboard(damaged).size() < n_events);
    CHECK(decode_tensorboard(std::string_view(file).substr(0, i)).size() < n_events);
  }
}

#include "tril/optim/schedule.h"

#include <vector>

#include "support/catch.h"

using namespace tril;

namespace {

constexpr std::initializer_list<ScheduleName> kAllNames = {
    ScheduleName::kCosine, ScheduleName::kLinear, ScheduleName::kConstant, ScheduleName::kWsd};

Schedule make(ScheduleName name, int64_t warmup, int64_t total, int64_t decay, double min_factor) {
  return {.name = name,
          .warmup_steps = warmup,
          .total_steps = total,
          .decay_steps = decay,
          .min_factor = min_factor};
}

}  // namespace

TEST_CASE("warm-up rises by 1/(w+1) a step and never starts at 0", "[optim]") {
  for (const ScheduleName name : kAllNames) {
    const Schedule schedule = make(name, 10, 100, 100, 0.1);
    CHECK(schedule_factor(schedule, 1) == 1.0 / 11);
    CHECK(schedule_factor(schedule, 5) == 5.0 / 11);
    CHECK(schedule_factor(schedule, 10) == 10.0 / 11);
    CHECK(schedule_factor(schedule, 11) == 1.0);
  }
}

TEST_CASE("without warm-up the first step has the full rate", "[optim]") {
  for (const ScheduleName name : kAllNames) {
    CHECK(schedule_factor(make(name, 0, 100, 50, 0.0), 1) == 1.0);
  }
}

TEST_CASE("a run of one step learns at the full rate", "[optim]") {
  for (const ScheduleName name : kAllNames) {
    CHECK(schedule_factor(make(name, 0, 1, 1, 0.0), 1) == 1.0);
  }
}

TEST_CASE("cosine and linear go from 1 to the minimum at decay_steps and stay", "[optim]") {
  // w = 1: full rate at step 2, the end at step 10, so step 6 is half way and step 4 a quarter.
  const Schedule cosine = make(ScheduleName::kCosine, 1, 20, 10, 0.2);
  CHECK(schedule_factor(cosine, 2) == 1.0);
  CHECK(schedule_factor(cosine, 4) == Approx(0.2 + 0.8 * 0.85355339059));  // (1 + cos(pi/4)) / 2
  CHECK(schedule_factor(cosine, 6) == Approx(0.6));
  CHECK(schedule_factor(cosine, 10) == 0.2);
  CHECK(schedule_factor(cosine, 11) == 0.2);
  CHECK(schedule_factor(cosine, 20) == 0.2);

  const Schedule linear = make(ScheduleName::kLinear, 1, 20, 10, 0.2);
  CHECK(schedule_factor(linear, 2) == 1.0);
  CHECK(schedule_factor(linear, 4) == Approx(0.8));
  CHECK(schedule_factor(linear, 6) == Approx(0.6));
  CHECK(schedule_factor(linear, 9) == Approx(0.3));
  CHECK(schedule_factor(linear, 10) == 0.2);
  CHECK(schedule_factor(linear, 20) == 0.2);
}

TEST_CASE("constant stays at 1 after the warm-up", "[optim]") {
  const Schedule schedule = make(ScheduleName::kConstant, 2, 10, 1, 0.0);
  for (int64_t step = 3; step <= 20; ++step) CHECK(schedule_factor(schedule, step) == 1.0);
}

TEST_CASE("wsd falls over the last decay_steps to exactly the minimum", "[optim]") {
  // N = 10, decay 4: step 6 is the last at 1, then 0.775, 0.55, 0.325, 0.1.
  const Schedule schedule = make(ScheduleName::kWsd, 2, 10, 4, 0.1);
  CHECK(schedule_factor(schedule, 3) == 1.0);
  CHECK(schedule_factor(schedule, 6) == 1.0);
  CHECK(schedule_factor(schedule, 7) == Approx(0.775));
  CHECK(schedule_factor(schedule, 8) == Approx(0.55));
  CHECK(schedule_factor(schedule, 9) == Approx(0.325));
  CHECK(schedule_factor(schedule, 10) == 0.1);
  CHECK(schedule_factor(schedule, 11) == 0.1);
}

TEST_CASE("a wsd decay longer than what follows the warm-up begins at its end", "[optim]") {
  const Schedule schedule = make(ScheduleName::kWsd, 5, 10, 100, 0.0);
  CHECK(schedule_factor(schedule, 5) == 5.0 / 6);
  CHECK(schedule_factor(schedule, 6) == 1.0);
  CHECK(schedule_factor(schedule, 8) == 0.5);
  CHECK(schedule_factor(schedule, 10) == 0.0);
}

TEST_CASE("a warm-up longer than the run is done as far as the run goes", "[optim]") {
  for (const ScheduleName name : kAllNames) {
    const Schedule schedule = make(name, 100, 10, 10, 0.1);
    for (int64_t step = 1; step <= 10; ++step) {
      CHECK(schedule_factor(schedule, step) == static_cast<double>(step) / 101);
    }
  }
}

TEST_CASE("a decay that ends within the warm-up leaves the warm-up whole", "[optim]") {
  const Schedule schedule = make(ScheduleName::kLinear, 4, 10, 3, 0.1);
  CHECK(schedule_factor(schedule, 4) == 0.8);
  CHECK(schedule_factor(schedule, 5) == 1.0);
  CHECK(schedule_factor(schedule, 6) == 0.1);
}

TEST_CASE("after the warm-up no curve rises or leaves its bounds", "[optim]") {
  for (const ScheduleName name : kAllNames) {
    const Schedule schedule = make(name, 7, 200, 150, 0.05);
    double previous = 1.0;
    for (int64_t step = 8; step <= 220; ++step) {
      const double factor = schedule_factor(schedule, step);
      CAPTURE(static_cast<int>(name), step);
      CHECK(factor <= previous);
      CHECK(factor >= 0.05);
      previous = factor;
    }
  }
}

TEST_CASE("a new horizon changes the curve only where it differs", "[optim]") {
  // C43: the factor is a pure function, so a resumed run has the straight run's rate at step 51,
  // and one resumed with 200 steps follows the longer curve.
  const Schedule straight = make(ScheduleName::kLinear, 10, 100, 100, 0.0);
  const Schedule longer = make(ScheduleName::kLinear, 10, 200, 200, 0.0);
  CHECK(schedule_factor(straight, 51) == Approx(49.0 / 89));
  CHECK(schedule_factor(longer, 51) == Approx(149.0 / 189));
  CHECK(schedule_factor(longer, 5) == schedule_factor(straight, 5));
}

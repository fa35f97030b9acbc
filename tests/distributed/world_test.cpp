#include "tril/distributed/world.h"

#include <map>

#include "support/catch.h"
#include "support/errors.h"

using namespace tril;
using namespace tril::testing;

namespace {

World world_in(std::map<std::string, std::string> variables, const WorldFlags& flags = {}) {
  return find_world(flags, [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

template <class Action>
std::string refusal(const Action& action) {
  return message_of<ConfigError>(action);
}

}  // namespace

TEST_CASE("without a word from anybody a process is alone", "[distributed]") {
  const World world = world_in({});
  CHECK(world.size == 1);
  CHECK(world.rank == 0);
  CHECK(world.source == "single");
}

TEST_CASE("torchrun's variables are read, and its agent serves the store", "[distributed]") {
  const World world = world_in({{"RANK", "5"},
                                {"WORLD_SIZE", "8"},
                                {"LOCAL_RANK", "1"},
                                {"LOCAL_WORLD_SIZE", "4"},
                                {"MASTER_ADDR", "node1"},
                                {"MASTER_PORT", "29501"},
                                {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                {"TORCHELASTIC_RUN_ID", "abc"},
                                {"TORCHELASTIC_RESTART_COUNT", "2"}});
  CHECK(world.rank == 5);
  CHECK(world.size == 8);
  CHECK(world.local_rank == 1);
  CHECK(world.local_size == 4);
  CHECK(world.host == "node1");
  CHECK(world.port == 29501);
  CHECK(world.store_is_served);
  CHECK(world.run == "abc/2");
}

TEST_CASE("flags win over the environment and belong together", "[distributed]") {
  const std::map<std::string, std::string> torchrun = {
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}};
  const World world = world_in(torchrun, {.rank = 2, .size = 3, .address = "[fd00::1]:1234"});
  CHECK(world.rank == 2);
  CHECK(world.size == 3);
  CHECK(world.host == "fd00::1");
  CHECK(world.port == 1234);
  CHECK_THAT(refusal([&] { world_in({}, {.rank = 2, .size = 3, .address = ""}); }),
             ContainsSubstring("--master"));
  CHECK_THAT(refusal([&] { world_in({}, {.rank = 3, .size = 3, .address = "a:1"}); }),
             ContainsSubstring("rank 3 of 3"));
  CHECK_THAT(refusal([&] { world_in({}, {.rank = 0, .size = 3, .address = "a:99999"}); }),
             ContainsSubstring("65535"));
}

TEST_CASE("a Slurm step's variables are read, a batch script's are not", "[distributed]") {
  std::map<std::string, std::string> variables = {{"SLURM_PROCID", "3"},
                                                  {"SLURM_NTASKS", "6"},
                                                  {"SLURM_LOCALID", "1"},
                                                  {"SLURM_TASKS_PER_NODE", "2(x2),1(x2)"},
                                                  {"SLURM_JOB_ID", "4711"},
                                                  {"SLURM_JOB_NODELIST", "gpu[07-09,12],login"}};
  CHECK(world_in(variables).size == 1);
  variables["SLURM_STEP_ID"] = "0";
  const World world = world_in(variables);
  CHECK(world.rank == 3);
  CHECK(world.size == 6);
  CHECK(world.local_rank == 1);
  CHECK(world.local_size == 2);
  CHECK(world.host == "gpu07");
  CHECK(world.port >= 20000);
  CHECK(world.source == "Slurm");
  variables["MASTER_ADDR"] = "10.0.0.1";
  variables["MASTER_PORT"] = "31000";
  CHECK(world_in(variables).host == "10.0.0.1");
  CHECK(world_in(variables).port == 31000);
}

TEST_CASE("the first host of a Slurm list is found", "[distributed]") {
  CHECK(first_slurm_host("node1") == "node1");
  CHECK(first_slurm_host("a,b,c") == "a");
  CHECK(first_slurm_host("a,b[1-2]") == "a");
  CHECK(first_slurm_host("node[007-010]") == "node007");
  CHECK(first_slurm_host("node[3,7],x") == "node3");
  CHECK(first_slurm_host("rack[1-2]-ib,y") == "rack1-ib");
}

TEST_CASE("mpirun's variables are read on one machine, and ask for an address on several",
          "[distributed]") {
  std::map<std::string, std::string> variables = {{"OMPI_COMM_WORLD_RANK", "1"},
                                                  {"OMPI_COMM_WORLD_SIZE", "2"},
                                                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                  {"PMIX_NAMESPACE", "12345"}};
  const World world = world_in(variables);
  CHECK(world.rank == 1);
  CHECK(world.size == 2);
  CHECK(world.host == "127.0.0.1");
  CHECK(world.source == "MPI");
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  variables["OMPI_COMM_WORLD_LOCAL_RANK"] = "0";
  CHECK_THAT(refusal([&] { world_in(variables); }), ContainsSubstring("MASTER_ADDR"));
  variables["MASTER_ADDR"] = "node1";
  CHECK(world_in(variables).host == "node1");
}

TEST_CASE("variables that are half there or no numbers are refused by name", "[distributed]") {
  CHECK_THAT(refusal([&] { world_in({{"WORLD_SIZE", "2"}}); }), ContainsSubstring("RANK is not"));
  CHECK_THAT(refusal([&] {
               world_in({{"RANK", "0"}, {"WORLD_SIZE", "2"}});
             }),
             ContainsSubstring("MASTER_ADDR"));
  CHECK_THAT(refusal([&] {
               world_in({{"RANK", "x"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}});
             }),
             ContainsSubstring("RANK"));
  CHECK_THAT(refusal([&] {
               world_in({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}});
             }),
             ContainsSubstring("rank 2 of 2"));
  CHECK(world_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).size == 1);
}

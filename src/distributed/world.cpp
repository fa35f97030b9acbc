#include "tril/distributed/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>

#include "tril/base/error.h"
#include "tril/base/utf8.h"

namespace tril {
namespace {

constexpr int64_t kMostProcesses = 1 << 20;
constexpr int64_t kDefaultPort = 29500;  ///< torchrun's

int64_t read_number(const std::string& name, const std::string& text, int64_t min, int64_t max) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || at != end || value < min || value > max) {
    throw ConfigError(fmt::format("{}: expected a whole number from {} to {}, found \"{}\"",
                                  name,
                                  min,
                                  max,
                                  escape_for_message(text)));
  }
  return value;
}

/// Reads variables that say a number.
class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  std::optional<std::string> text(const char* name) const { return environment_(name); }
  bool has(const char* name) const { return environment_(name).has_value(); }
  std::optional<int64_t> number(const char* name, int64_t min, int64_t max) const {
    const auto value = environment_(name);
    if (!value) return std::nullopt;
    return read_number(name, *value, min, max);
  }
  int64_t number_or(const char* name, int64_t min, int64_t max, int64_t otherwise) const {
    return number(name, min, max).value_or(otherwise);
  }

 private:
  const Environment& environment_;
};

/// "host:29500", "[::1]:29500".
void read_address(const std::string& address, World& world) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    throw ConfigError(
        fmt::format("--master: expected HOST:PORT, found \"{}\"", escape_for_message(address)));
  }
  world.host = address.substr(0, colon);
  if (world.host.size() > 2 && world.host.front() == '[' && world.host.back() == ']') {
    world.host = world.host.substr(1, world.host.size() - 2);
  }
  world.port =
      static_cast<uint16_t>(read_number("--master: port", address.substr(colon + 1), 1, 65535));
}

/// MASTER_ADDR and MASTER_PORT win over what a queue's own variables let one guess.
void read_master(const Variables& variables, World& world) {
  if (const auto host = variables.text("MASTER_ADDR"); host && !host->empty()) world.host = *host;
  if (const auto port = variables.number("MASTER_PORT", 1, 65535)) {
    world.port = static_cast<uint16_t>(*port);
  }
}

World from_flags(const WorldFlags& flags, const Variables& variables) {
  if (!flags.rank || !flags.size || flags.address.empty()) {
    throw ConfigError(
        "--rank, --world-size and --master HOST:PORT belong together: give all three, to every "
        "process");
  }
  World world;
  world.source = "flags";
  world.size = *flags.size;
  world.rank = *flags.rank;
  world.local_rank = variables.number_or("LOCAL_RANK", 0, kMostProcesses, 0);
  world.local_size = variables.number_or("LOCAL_WORLD_SIZE", 1, kMostProcesses, 1);
  read_address(flags.address, world);
  return world;
}

World from_environment(const Variables& variables) {
  World world;
  world.source = "environment";
  const auto size = variables.number("WORLD_SIZE", 1, kMostProcesses);
  const auto rank = variables.number("RANK", 0, kMostProcesses);
  if (!size || !rank) {
    throw ConfigError(fmt::format("{} is set and {} is not: a launcher sets both (or unset it)",
                                  size ? "WORLD_SIZE" : "RANK",
                                  size ? "RANK" : "WORLD_SIZE"));
  }
  world.size = *size;
  world.rank = *rank;
  world.local_rank = variables.number_or("LOCAL_RANK", 0, kMostProcesses, 0);
  world.local_size = variables.number_or("LOCAL_WORLD_SIZE", 1, kMostProcesses, 1);
  world.port = kDefaultPort;
  if (world.size > 1 && !variables.has("MASTER_ADDR")) {
    throw ConfigError(
        "WORLD_SIZE is set and MASTER_ADDR is not: where is rank 0? Set MASTER_ADDR (and "
        "MASTER_PORT), or start the processes with torchrun or `tril launch`");
  }
  read_master(variables, world);
  world.store_is_served = variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  world.run = variables.text("TORCHELASTIC_RUN_ID").value_or("") + "/" +
              variables.text("TORCHELASTIC_RESTART_COUNT").value_or("0");
  if (const auto fd = variables.number("TRIL_LISTEN_FD", 3, 1 << 20); fd && world.rank == 0) {
    world.listen_fd = static_cast<int>(*fd);
  }
  return world;
}

/// "2(x3),1" -> 2: the most tasks on one of the step's nodes.
int64_t slurm_tasks_per_node(const std::string& text) {
  int64_t most = 1;
  const char* end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    int64_t n = 0;
    const char* after = std::from_chars(at, end, n).ptr;
    const bool is_count = after != at && (at == text.data() || at[-1] == ',');
    if (is_count) most = std::max(most, n);
    at = std::max(after, at + 1);
  }
  return most;
}

World from_slurm(const Variables& variables, int64_t size) {
  World world;
  world.source = "Slurm";
  world.size = size;
  world.rank = *variables.number("SLURM_PROCID", 0, kMostProcesses);
  world.local_rank = variables.number_or("SLURM_LOCALID", 0, kMostProcesses, 0);
  world.local_size =
      slurm_tasks_per_node(variables.text("SLURM_STEP_TASKS_PER_NODE")
                               .value_or(variables.text("SLURM_TASKS_PER_NODE").value_or("1")));
  auto hosts = variables.text("SLURM_STEP_NODELIST");
  if (!hosts) hosts = variables.text("SLURM_JOB_NODELIST");
  if (hosts) world.host = first_slurm_host(*hosts);
  // Two steps of one job may run at once; so may two jobs on one machine.
  const int64_t job = variables.number_or("SLURM_JOB_ID", 0, int64_t{1} << 62, 0);
  const int64_t step = variables.number_or("SLURM_STEP_ID", 0, int64_t{1} << 62, 0);
  world.port = static_cast<uint16_t>(20000 + (job * 7 + step) % 12000);
  world.run = fmt::format("{}.{}", job, step);
  read_master(variables, world);
  if (!hosts && !variables.has("MASTER_ADDR")) {
    throw ConfigError("Slurm says no SLURM_JOB_NODELIST: set MASTER_ADDR to the host of task 0");
  }
  return world;
}

/// Names of the variables of one MPI.
struct MpiNames {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};
constexpr MpiNames kMpiNames[] = {{"OMPI_COMM_WORLD_RANK",
                                   "OMPI_COMM_WORLD_SIZE",
                                   "OMPI_COMM_WORLD_LOCAL_RANK",
                                   "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                  {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}};

World from_mpi(const Variables& variables, const MpiNames& names) {
  World world;
  world.source = "MPI";
  world.size = *variables.number(names.size, 1, kMostProcesses);
  world.rank = *variables.number(names.rank, 0, kMostProcesses);
  world.local_rank = variables.number_or(names.local_rank, 0, kMostProcesses, 0);
  world.local_size = variables.number_or(names.local_size, 1, kMostProcesses, 1);
  if (world.local_size < world.size && !variables.has("MASTER_ADDR")) {
    throw ConfigError(
        "mpirun started processes on several machines: say where rank 0 is, for example mpirun -x "
        "MASTER_ADDR=node1 -x MASTER_PORT=29500 ...");
  }
  // Two runs on one machine must not meet: mpirun's own job id tells them apart.
  auto job = variables.text("PMIX_NAMESPACE");
  if (!job) job = variables.text("OMPI_MCA_ess_base_jobid");
  world.port = static_cast<uint16_t>(20000 + std::hash<std::string>()(job.value_or("")) % 12000);
  world.run = job.value_or("");
  read_master(variables, world);
  return world;
}

void require_sound(const World& world) {
  if (world.rank < world.size && world.local_rank < world.local_size) return;
  throw ConfigError(fmt::format(
      "{}: rank {} of {} processes, {} of {} on this machine: ranks count from 0 and are below "
      "the number of processes",
      world.source,
      world.rank,
      world.size,
      world.local_rank,
      world.local_size));
}

World find_in(const WorldFlags& flags, const Variables& variables) {
  if (flags.rank || flags.size || !flags.address.empty()) return from_flags(flags, variables);
  if (variables.has("WORLD_SIZE") || variables.has("RANK")) return from_environment(variables);
  // A batch script has Slurm's variables too; only srun starts as many processes as they say.
  if (variables.has("SLURM_STEP_ID") && variables.has("SLURM_PROCID")) {
    auto size = variables.number("SLURM_STEP_NUM_TASKS", 1, kMostProcesses);
    if (!size) size = variables.number("SLURM_NTASKS", 1, kMostProcesses);
    if (size.value_or(1) > 1) return from_slurm(variables, *size);
  }
  for (const MpiNames& names : kMpiNames) {
    if (variables.has(names.rank) && variables.has(names.size)) return from_mpi(variables, names);
  }
  return {};
}

}  // namespace

std::optional<std::string> process_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

World find_world(const WorldFlags& flags, const Environment& environment) {
  World world = find_in(flags, Variables(environment));
  require_sound(world);
  return world;
}

std::string first_slurm_host(const std::string& list) {
  // Commas inside brackets separate numbers, those outside hosts.
  const size_t bracket = list.find('[');
  const size_t comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const size_t end = list.find_first_of("-,]", bracket);
  const size_t close = list.find(']', bracket);
  if (end == std::string::npos || close == std::string::npos) return list;
  const size_t after = list.find(',', close);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1) +
         list.substr(close + 1, after == std::string::npos ? after : after - close - 1);
}

}  // namespace tril

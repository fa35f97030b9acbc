#pragma once
// Which of how many processes this one is, and where they meet. No Torch here.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tril {

/// One process's place among those that train one model together.
struct World {
  int64_t rank = 0;        ///< of this process, in [0, size)
  int64_t size = 1;        ///< processes in all
  int64_t local_rank = 0;  ///< among those on this machine
  int64_t local_size = 1;
  std::string host = "127.0.0.1";  ///< where rank 0 is, or whoever serves the store
  uint16_t port = 0;
  bool store_is_served = false;   ///< by the launcher (torchrun's agent): rank 0 joins it too
  int listen_fd = -1;             ///< rank 0: a socket that listens on `port` already
  std::string run = {};           ///< tells the attempts of one launcher apart
  std::string source = "single";  ///< who said so: "flags", "environment", "Slurm", "MPI"
};

/// What the command line says; all of rank, size and address, or nothing.
struct WorldFlags {
  std::optional<int64_t> rank;
  std::optional<int64_t> size;
  std::string address;  ///< HOST:PORT
};

/// The value of an environment variable; nothing when it is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> process_environment(const char* name);

/// In this order: flags; RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT (torchrun and many
/// others, `tril launch`); the variables of a Slurm step (srun); of Open MPI and MPICH (mpirun);
/// else a single process. Throws ConfigError for what is incomplete or contradicts itself.
World find_world(const WorldFlags& flags, const Environment& environment = process_environment);

/// The first host of a Slurm list: "node[07-09,12],login" -> "node07".
std::string first_slurm_host(const std::string& list);

}  // namespace tril

// Drawn sequences of collectives on eight devices of four processes, with delays and failures, until
// one of the processes is killed or leaves: `stress GROUPS SEQUENCES SEED` forks groups of processes
// that sockets join; `mpirun -n 4 stress LIBRARY SEQUENCES SEED` is one that MPI joins, and nobody
// leaves. Results are right or errors name who is gone, within seconds; and nothing is left over:
// memory, threads, files. `make stress` runs it.
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../../hloom/runtime/native/processes_sockets.h"
#include "stress_collectives.h"

HL_API hl_processes* hl_processes_mpi(const char* libraries, char* message, int64_t size);

namespace {

constexpr int kProcesses = 4;
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kEach = kDevices / kProcesses;
constexpr uint32_t kWarmUp = 40;          // sequences after which nothing grows any more
constexpr int64_t kMostGrowth = 3 << 19;  // bytes of memory
constexpr int kMostSeconds = 240;         // of a group
constexpr double kMostNotice = 5;         // seconds until a death is known

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

int entries(const char* folder) {
  DIR* opened = opendir(folder);
  int count = 0;
  while (readdir(opened) != nullptr) ++count;
  closedir(opened);
  return count;
}

// What a process holds.
struct Held {
  int files, threads;
  int64_t bytes;
};

Held held() {
  long pages = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "re");
  if (fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = -1;
  fclose(file);
  return {entries("/proc/self/fd"), entries("/proc/self/task"), resident * sysconf(_SC_PAGESIZE)};
}

bool has_grown(const Held& before, int rank) {
  Held after = held();
  if (after.files <= before.files && after.threads <= before.threads &&
      after.bytes - before.bytes < kMostGrowth)
    return false;
  fprintf(stderr, "wrong: process %d holds %d files, %d threads, %lld bytes more\n", rank,
          after.files - before.files, after.threads - before.threads,
          static_cast<long long>(after.bytes - before.bytes));
  return true;
}

// One of the processes: how much was wrong. Without a death all end as they should.
int member(hloom::Processes* joined, uint32_t sequences, uint32_t seed, const Death* death) {
  int rank = joined->rank(), wrong = 0;
  int32_t process_of[kDevices];
  for (int64_t d = 0; d < kDevices; ++d) process_of[d] = static_cast<int32_t>(d / kEach);
  hl_pool* pool = hl_pool_new(2);
  hl_devices* devices = hl_devices_new(kDevices, 20 * kSecond, 40 * kSecond, 60 * kSecond);
  hl_devices_across(devices, reinterpret_cast<hl_processes*>(joined), 1, 7, process_of);
  Held before{};
  for (uint32_t k = 0; k < sequences; ++k) {
    if (k == kWarmUp) before = held();
    wrong += !is_drawn_right(devices, pool, seed + k, kEach, rank);
  }
  if (sequences > kWarmUp) wrong += has_grown(before, rank);
  if (death != nullptr) {
    double begin = now();
    wrong += !is_drawn_right(devices, pool, seed + sequences, kEach, rank, death);
    Death after = *death;
    after.is_before = true;
    wrong += !is_drawn_right(devices, pool, seed + sequences + 1, kEach, rank, &after);
    if (now() - begin > kMostNotice) {
      fprintf(stderr, "wrong: process %d knew of a death after %.1f s\n", rank, now() - begin);
      ++wrong;
    }
  }
  hl_devices_free(devices);
  hl_pool_free(pool);
  return wrong;
}

// Whether a child ended as it should.
bool ends_as(const Death& death, int rank, pid_t child) {
  double begin = now();
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (now() - begin > kMostSeconds) {
      fprintf(stderr, "wrong: process %d hangs\n", rank);
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return false;
    }
    usleep(2000);
  }
  bool is_right = rank == death.process && death.is_killed
                      ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                      : WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!is_right) fprintf(stderr, "wrong: process %d ended with status %d\n", rank, status);
  return is_right;
}

// A group of processes that sockets join: how many of them were wrong.
int group(uint32_t sequences, uint32_t seed) {
  std::mt19937 random(seed);
  int dying = static_cast<int>(random() % kProcesses);
  Death death{dying, dying * kEach + static_cast<int64_t>(random() % kEach), random() % 8,
              random() % 3 != 0, false};
  std::vector<std::unique_ptr<hloom::SocketDoor>> doors;
  std::vector<std::string> places;
  for (int k = 0; k < kProcesses; ++k) {
    doors.push_back(std::make_unique<hloom::SocketDoor>());
    places.push_back(doors.back()->place());
  }
  std::vector<pid_t> children;
  for (int rank = 0; rank < kProcesses; ++rank) {
    pid_t child = fork();
    if (child == 0) {
      for (int k = 0; k < kProcesses; ++k)
        if (k != rank) doors[k].reset();
      std::string message;
      hloom::Processes* joined = doors[rank]->joined(rank, places, 60 * kSecond, &message);
      if (joined == nullptr) fprintf(stderr, "wrong: %s\n", message.c_str());
      exit(joined == nullptr || member(joined, sequences, seed, &death) != 0);
    }
    children.push_back(child);
  }
  doors.clear();
  int wrong = 0;
  for (int rank = 0; rank < kProcesses; ++rank) wrong += !ends_as(death, rank, children[rank]);
  if (wrong != 0)
    fprintf(stderr, "wrong: group %u, in which process %d %s\n", seed, dying,
            death.is_killed ? "is killed" : "leaves");
  return wrong;
}

int of_mpi(const char* library, uint32_t sequences, uint32_t seed) {
  char message[400] = "";
  auto* joined =
      reinterpret_cast<hloom::Processes*>(hl_processes_mpi(library, message, sizeof(message)));
  if (joined == nullptr || joined->size() != kProcesses) {
    fprintf(stderr, "wrong: %d processes of MPI: %s\n", joined == nullptr ? 0 : joined->size(),
            message);
    return 1;
  }
  int wrong = member(joined, sequences, seed, nullptr);
  fprintf(stderr, "process %d of MPI: %u sequences, %d wrong\n", joined->rank(), sequences, wrong);
  return wrong;
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) return fprintf(stderr, "stress GROUPS|LIBRARY SEQUENCES SEED\n"), 2;
  uint32_t sequences = static_cast<uint32_t>(atoi(words[2]));
  uint32_t seed = static_cast<uint32_t>(atoi(words[3]));
  int groups = atoi(words[1]), wrong = 0;
  if (groups == 0) return of_mpi(words[1], sequences, seed) != 0;
  double begin = now();
  for (int k = 0; k < groups; ++k) wrong += group(sequences, seed + 100'000 * k);
  fprintf(stderr, "%d groups of %u sequences over sockets, %d processes wrong, %.0f s\n", groups,
          sequences, wrong, now() - begin);
  return wrong != 0;
}

// Stands in for CUDA and TileLang's device templates, so that a warp-specialised kernel's text runs on a CPU as what it is
// besides arithmetic: a protocol. One host thread plays the first thread of each warp group. Half of the loads arrive soon,
// the others not before something waits for them, so a load without a wait is missed. A WGMMA reads its stages as late as it
// may (when its batch is waited for), and what it reads is the coordinates of the load that lies there. A tile is right if each k was added to it once, from its own rows and columns. What a block
// sends to another of its cluster are the products behind its sums; they are added when their barrier is waited for.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#define __global__
#define __grid_constant__
#define __launch_bounds__(...)

using uchar = unsigned char;
using half_t = uint16_t;
using bfloat16_t = uint16_t;
struct half2 { half_t x, y; };
struct bfloat162 { half_t x, y; };
using __nv_bfloat162 = bfloat162;
struct float2 { float x, y; };
struct uint1 { unsigned x; };
struct Index { int x = 0, y = 0, z = 0; };
inline half2 __float22half2_rn(float2) { return {}; }
inline bfloat162 __float22bfloat162_rn(float2) { return {}; }

constexpr auto PATIENCE = std::chrono::seconds(4);

[[noreturn]] inline void fail(const std::string& what) {
  static std::mutex once;
  once.lock();
  std::printf("%s\n", what.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

class Barrier;
void add_what_came_with(Barrier*);

class Barrier {
 public:
  void init(int arrivals) { arrivals_ = pending_ = arrivals; }
  void wait(int parity) {
    {
      std::unique_lock lock(mutex_);
      if ((phase_ & 1) == parity) awaited_ = phase_, changed_.notify_all();
      if (!changed_.wait_for(lock, PATIENCE, [&] { return (phase_ & 1) != parity; })) {
        fail("deadlock: " + name + " never came");
      }
    }
    add_what_came_with(this);
  }
  void arrive() { change(1, 0); }
  void arrive_and_expect_tx(int bytes) { expect_transaction(bytes), arrive(); }
  void expect_transaction(int bytes) {
    std::lock_guard lock(mutex_);
    bytes_ += bytes;
  }
  void complete_transaction(int bytes) { change(0, bytes); }
  int phase() {
    std::lock_guard lock(mutex_);
    return phase_;
  }
  void until_awaited(int phase) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, 2 * PATIENCE, [&] { return awaited_ >= phase; })) fail("nothing waits for " + name);
  }
  std::string name;

 private:
  void change(int arrivals, int bytes) {
    std::lock_guard lock(mutex_);
    pending_ -= arrivals, bytes_ -= bytes;
    if (pending_ < 0) fail("one arrival too many at " + name);
    if (pending_ == 0 && bytes_ == 0) ++phase_, pending_ = arrivals_, changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrivals_ = 0, pending_ = 0, bytes_ = 0, phase_ = 0, awaited_ = -1;
};

struct CUtensorMap { char operand; int box_bytes; };
struct Loaded { char operand; int inner, outer, bytes; };

struct Product { int m, n, k; };

struct Block {
  std::vector<uchar> shared = std::vector<uchar>(1 << 18);
  std::mutex mutex;
  std::map<int64_t, Loaded> loaded;  // by offset in shared memory
  std::map<std::string, std::unique_ptr<Barrier[]>> arrays;
  std::map<Barrier*, std::vector<std::vector<Product>>> received;
  std::vector<std::thread> loads;
  std::mutex sync_mutex;
  std::condition_variable synced;
  int arrived = 0, round = 0;
};

struct Wgmma { int64_t a, b; const void* accumulator; bool adds; };

inline int GROUPS, K, K_MAJOR_B, CLUSTER;
inline std::vector<Block>* grid;
inline std::mutex stored_mutex;
inline std::multiset<std::pair<int, int>> stored;  // (m, n) of what reached C

inline thread_local Index threadIdx, blockIdx;
inline thread_local Block* block;
inline thread_local std::deque<std::vector<Wgmma>> batches;
inline thread_local std::vector<Wgmma> batch;
inline thread_local std::map<const void*, std::vector<Product>> tile;  // by accumulator
inline thread_local std::mt19937 dice{std::random_device{}()};

inline Barrier* barriers(const char* name, int count) {
  std::lock_guard lock(block->mutex);
  auto& array = block->arrays[name];
  if (!array) {
    array = std::make_unique<Barrier[]>(count);
    for (int each = 0; each < count; ++each) array[each].name = std::string(name) + "[" + std::to_string(each) + "]";
  }
  return array.get();
}

inline Block& of_cluster(int rank) { return (*grid)[blockIdx.x / CLUSTER * CLUSTER + rank]; }

inline void meet(Block& at, int threads) {
  std::unique_lock lock(at.sync_mutex);
  int mine = at.round;
  if (++at.arrived == threads) at.arrived = 0, ++at.round, at.synced.notify_all();
  at.synced.wait(lock, [&] { return at.round != mine; });
}
inline void __syncthreads() { meet(*block, GROUPS + 1); }

inline void cudaGridDependencySynchronize() {}
inline void cudaTriggerProgrammaticLaunchCompletion() {}

inline void add_what_came_with(Barrier* barrier) {
  std::lock_guard lock(block->mutex);
  auto found = block->received.find(barrier);
  if (found == block->received.end()) return;
  auto theirs = found->second.begin();
  for (auto& [accumulator, products] : tile) products.insert(products.end(), theirs->begin(), theirs->end()), ++theirs;
  block->received.erase(found);
}

namespace tl {
enum class DataType { kFloat16, kBFloat16, kFloat32, kFloat8_e4m3 };
template <int N> bool tl_shuffle_elect() { return N != 0 || threadIdx.x == 0; }
inline void prefetch_tma_descriptor(const CUtensorMap&) {}
inline void fence_barrier_init() {}
inline void fence_proxy_async() {}
template <int N> void warpgroup_reg_alloc() {}
template <int N> void warpgroup_reg_dealloc() {}
template <class T> void warpgroup_fence_operand(T*, int) {}
inline void warpgroup_arrive() {}
inline void __sync_thread_partial(int, int) {}
inline void tma_store_arrive() {}
template <int N, bool Read = true> void tma_store_wait() {}

inline void tma_load(const CUtensorMap& map, Barrier& full, void* to, int inner, int outer) {
  int64_t offset = static_cast<uchar*>(to) - block->shared.data();
  auto late = std::chrono::microseconds(std::uniform_int_distribution<>(0, 200)(dice));
  bool soon = dice() % 2;
  int phase = full.phase();
  Block* here = block;
  std::lock_guard lock(here->mutex);
  here->loads.emplace_back([=, &map, &full] {
    if (!soon) full.until_awaited(phase);
    std::this_thread::sleep_for(late);
    {
      std::lock_guard lock(here->mutex);
      here->loaded[offset] = {map.operand, inner, outer, map.box_bytes};
    }
    full.complete_transaction(map.box_bytes);
  });
}

inline void cluster_sync() { meet(of_cluster(0), (GROUPS + 1) * CLUSTER); }

inline void tma_store_cluster(void* to, void* from, int rank, uint32_t bytes, Barrier& mine) {
  if (!batches.empty()) fail("sums are sent while a WGMMA still adds to them");
  if (to == from) fail("sums are sent to where their receiver prepares its own");
  std::string array = mine.name.substr(0, mine.name.find('['));
  Block& there = of_cluster(rank);
  Barrier* theirs = &there.arrays[array][&mine - block->arrays[array].get()];
  std::vector<std::vector<Product>> sums;
  for (const auto& [accumulator, products] : tile) sums.push_back(products);
  theirs->arrive_and_expect_tx(bytes);
  auto late = std::chrono::microseconds(std::uniform_int_distribution<>(0, 200)(dice));
  std::lock_guard lock(block->mutex);
  block->loads.emplace_back([=, &there] {
    std::this_thread::sleep_for(late);
    {
      std::lock_guard lock(there.mutex);
      there.received[theirs] = sums;
    }
    theirs->complete_transaction(bytes);
  });
}

struct GmmaDescriptor {
  int64_t offset = 0;
  uint64_t operator+(int64_t more) const { return (offset >> 4) + more; }
};
template <int, int, int, class T> void initialize_wgmma_descriptor(GmmaDescriptor& made, T* at) {
  made.offset = reinterpret_cast<uchar*>(at) - block->shared.data();
}
template <class T> void increase_descriptor_offset(GmmaDescriptor& made, T more) { made.offset += more; }

template <DataType, DataType, DataType, int, int, int, bool, bool, int, int>
void wgmma_ss(uint64_t a, uint64_t b, uint32_t* accumulator, int adds) {
  batch.push_back({int64_t(a) << 4, int64_t(b) << 4, accumulator, adds != 0});
}
inline void warpgroup_commit_batch() { batches.push_back(std::exchange(batch, {})); }

inline std::pair<Loaded, int64_t> what_lies_at(int64_t offset, char operand) {
  std::lock_guard lock(block->mutex);
  auto after = block->loaded.upper_bound(offset);
  if (after == block->loaded.begin()) fail("a WGMMA reads a stage that was never loaded");
  auto [base, found] = *std::prev(after);
  if (found.operand != operand || offset >= base + found.bytes) fail("a WGMMA reads what is not its operand");
  return {found, offset - base};
}

// Swizzled rows are 128 bytes of 16-bit elements.
inline void retire(const Wgmma& each) {
  auto [a, in_a] = what_lies_at(each.a, 'A');
  auto [b, in_b] = what_lies_at(each.b, 'B');
  int m = a.outer + int(in_a / 128), k = a.inner + int(in_a % 128 / 2);
  int n = K_MAJOR_B ? b.outer + int(in_b / 128) : b.inner;
  int k_of_b = K_MAJOR_B ? b.inner + int(in_b % 128 / 2) : b.outer + int(in_b / 128);
  if (k != k_of_b) fail("a WGMMA multiplies k " + std::to_string(k) + " of A by k " + std::to_string(k_of_b) + " of B");
  auto& products = tile[each.accumulator];
  if (!each.adds) products.clear();
  if (k < K) products.push_back({m, n, k});  // what lies behind K loads as zeros
}
template <int N> void wait_wgmma() {
  while (int(batches.size()) > N) {
    for (const auto& each : batches.front()) retire(each);
    batches.pop_front();
  }
}

inline void tma_store(const CUtensorMap&, void*, int n, int m) {
  if (!batches.empty()) fail("a tile is stored while a WGMMA still adds to it");
  int height = 0;
  for (const auto& [accumulator, products] : tile) {
    std::set<int> ks;
    for (const auto& each : products) {
      ks.insert(each.k);
      if (each.n > n || each.m != products.front().m || each.n != products.front().n) fail("a tile mixes rows or columns");
    }
    if (int(products.size()) != K / 16 || int(ks.size()) != K / 16) {
      fail("a tile has " + std::to_string(products.size()) + " products of " + std::to_string(ks.size()) + " different k");
    }
    if (products.front().m != m + height) fail("a tile is stored in rows of another");
    height += 64;
  }
  std::lock_guard lock(stored_mutex);
  stored.insert({m, n});
}
}  // namespace tl

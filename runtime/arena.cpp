#include "runtime/arena.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>

#include "models/core/text.h"

namespace zeroplan::runtime {
namespace {

/// A NaN with a payload of no meaning elsewhere.
constexpr std::uint32_t kUntouched = 0x7fa51c3bu;

}  // namespace

void fill_with_pattern(std::byte* data, std::size_t size) {
  ZP_CHECK(size % sizeof(kUntouched) == 0);
  auto* words = reinterpret_cast<std::uint32_t*>(data);
  std::fill(words, words + size / sizeof(kUntouched), kUntouched);
}

Arena::Arena(Bytes size) : size_(round_up(size, sizeof(kUntouched))) {
  if (size_ == Bytes()) return;
  void* address =
      ::mmap(nullptr, size_.count(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    throw Error(ErrorCode::kIo,
                fmt::format("the system refused {} for an arena: {}", format_size(size_), std::strerror(errno)))
        .hint("plan for less memory (--budget), or run on a machine with more");
  }
  data_ = static_cast<std::byte*>(address);
  ::madvise(address, size_.count(), MADV_HUGEPAGE);
  fill_with_pattern(data_, size_.count());
}

Arena::Arena(Bytes size, kernels::Device& device, bool is_on_host)
    : device_(&device), is_on_host_(is_on_host), size_(round_up(size, sizeof(kUntouched))) {
  if (size_ == Bytes()) return;
  if (is_on_host) {
    data_ = static_cast<std::byte*>(device.allocate_host(size_.count()));
    fill_with_pattern(data_, size_.count());
    return;
  }
  data_ = static_cast<std::byte*>(device.allocate(size_.count()));
  const auto stream = device.make_stream();
  stream->fill_words(data_, kUntouched, size_.count() / sizeof(kUntouched));
  stream->synchronize();
}

Arena::~Arena() {
  if (data_ == nullptr) return;
  if (device_ == nullptr) {
    ::munmap(data_, size_.count());
  } else if (is_on_host_) {
    device_->release_host(data_);
  } else {
    device_->release(data_);
  }
}

Bytes Arena::written() const {
  const auto* words = reinterpret_cast<const std::uint32_t*>(data_);
  const std::size_t count = size_.count() / sizeof(kUntouched);
  if (is_on_device()) return size_ - Bytes(device_->count_words(data_, kUntouched, count) * sizeof(kUntouched));
  const auto untouched = static_cast<std::uint64_t>(std::count(words, words + count, kUntouched));
  return size_ - Bytes(untouched * sizeof(kUntouched));
}

Arenas::Arenas(const planner::Plan& plan, kernels::Device* device) : plan_(plan) {
  for (std::size_t t = 0; t < planner::kTierCount; ++t) {
    const Bytes size = plan.tiers[t].arena;
    const bool is_on_host = t != static_cast<std::size_t>(planner::Tier::kDevice);
    arenas_[t] = device == nullptr ? std::make_unique<Arena>(size) : std::make_unique<Arena>(size, *device, is_on_host);
  }
  for (const planner::Buffer& buffer : plan.buffers) {
    const Bytes end = buffer.offset + buffer.bytes;
    if (end > plan.tier(buffer.tier).arena) {
      throw Error(ErrorCode::kInvalidInput, fmt::format("buffer {} ends at {}, beyond its arena of {}", buffer.name,
                                                        end.count(), plan.tier(buffer.tier).arena.count()));
    }
  }
}

std::byte* Arenas::address(planner::BufferId buffer) const {
  const planner::Buffer& b = plan_.buffers.at(buffer);
  return tier(b.tier).data() + b.offset.count();
}

}  // namespace zeroplan::runtime

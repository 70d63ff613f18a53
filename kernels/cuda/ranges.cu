// Add, scale, fill, copy and ordered sum over flat ranges: each element is read and written once.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/ranges.h"

namespace zeroplan::kernels::cuda {
namespace {

template <class T>
struct AddBody {
  const T* a;
  const T* b;
  T* out;
  template <int N>
  __device__ void at(std::size_t i) const {
    Floats<N> x = load<N>(a + i);
    const Floats<N> y = load<N>(b + i);
#pragma unroll
    for (int e = 0; e < N; ++e) x.v[e] += y.v[e];
    store<N>(out + i, x);
  }
};

template <class T>
struct ScaleBody {
  T* x;
  float factor;
  template <int N>
  __device__ void at(std::size_t i) const {
    Floats<N> values = load<N>(x + i);
#pragma unroll
    for (int e = 0; e < N; ++e) values.v[e] *= factor;
    store<N>(x + i, values);
  }
};

template <class T>
struct FillBody {
  T* x;
  float value;
  template <int N>
  __device__ void at(std::size_t i) const {
    Floats<N> values;
#pragma unroll
    for (int e = 0; e < N; ++e) values.v[e] = value;
    store<N>(x + i, values);
  }
};

template <class From, class To>
struct CopyBody {
  const From* x;
  To* out;
  template <int N>
  __device__ void at(std::size_t i) const {
    store<N>(out + i, load<N>(x + i));
  }
};

template <class T>
struct OrderedSumBody {
  const T* inputs[kMaxOrderedInputs];
  int input_count;
  T* out;
  template <int N>
  __device__ void at(std::size_t i) const {
    Floats<N> sum = load<N>(inputs[0] + i);
    for (int r = 1; r < input_count; ++r) {
      const Floats<N> x = load<N>(inputs[r] + i);
#pragma unroll
      for (int e = 0; e < N; ++e) sum.v[e] += x.v[e];
    }
    store<N>(out + i, sum);
  }
};

}  // namespace

void enqueue(const Add& args, const Launch& launch) {
  with_type(args.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const AddBody<T> body{static_cast<const T*>(args.a), static_cast<const T*>(args.b), static_cast<T*>(args.out)};
    for_each_element(args.count, body, aligned({args.a, args.b, args.out}), launch, "add");
  });
}

void enqueue(const Scale& args, const Launch& launch) {
  with_type(args.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    for_each_element(args.count, ScaleBody<T>{static_cast<T*>(args.x), args.factor}, aligned({args.x}), launch,
                     "scale");
  });
}

void enqueue(const Fill& args, const Launch& launch) {
  with_type(args.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    for_each_element(args.count, FillBody<T>{static_cast<T*>(args.x), args.value}, aligned({args.x}), launch, "fill");
  });
}

void enqueue(const Copy& args, const Launch& launch) {
  if (args.dtype == args.out_dtype) {
    const std::size_t bytes = args.count * size_of(args.dtype);
    check_device(cudaMemcpyAsync(args.out, args.x, bytes, cudaMemcpyDeviceToDevice, launch.stream), "copy");
    return;
  }
  with_type(args.dtype, [&](auto from) {
    using From = typename decltype(from)::Type;
    with_type(args.out_dtype, [&](auto to) {
      using To = typename decltype(to)::Type;
      const CopyBody<From, To> body{static_cast<const From*>(args.x), static_cast<To*>(args.out)};
      for_each_element(args.count, body, aligned({args.x, args.out}), launch, "copy");
    });
  });
}

void enqueue_ordered_sum(const OrderedSum& args, const Launch& launch) {
  ZP_CHECK(args.input_count >= 1 && args.input_count <= kMaxOrderedInputs);
  with_type(args.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    OrderedSumBody<T> body{{}, static_cast<int>(args.input_count), static_cast<T*>(args.out)};
    bool is_aligned = aligned({args.out});
    for (std::size_t r = 0; r < args.input_count; ++r) {
      body.inputs[r] = static_cast<const T*>(args.inputs[r]);
      is_aligned = is_aligned && aligned({args.inputs[r]});
    }
    for_each_element(args.count, body, is_aligned, launch, "ordered sum");
  });
}

}  // namespace zeroplan::kernels::cuda

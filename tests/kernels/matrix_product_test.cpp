// How a product for the GPU is cut in two; computed here by the reference.
#include "kernels/cuda/matrix_product.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/gemm.h"

namespace zeroplan::kernels::cuda {
namespace {

void compute(const MatrixProduct& p) {
  Gemm args;
  args.dtype = p.dtype;
  args.c_dtype = p.c_dtype;
  args.m = p.m;
  args.n = p.n;
  args.k = p.k;
  args.transpose_a = p.transpose_a;
  args.transpose_b = p.transpose_b;
  args.a = p.a;
  args.a_stride = p.a_stride;
  args.b = p.b;
  args.b_stride = p.b_stride;
  args.c = p.c;
  args.c_stride = p.c_stride;
  args.bias = p.bias;
  args.accumulate = p.accumulate;
  reference::gemm(args);
}

std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() % 2001) / 1000 - 1;
  return values;
}

struct Extents {
  std::size_t m, n, k;
};

constexpr Extents kExtents[] = {{5, 7, 9}, {3, 1029, 4}, {3, 1032, 4}, {1027, 3, 4}, {3, 4, 1031}};

TEST(ProductParts, GiveTheWholeProduct) {
  for (const Extents& e : kExtents) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        for (const bool adds : {false, true}) {
          for (const bool has_bias : {false, true}) {
            const std::size_t pad = 3;
            MatrixProduct p{.m = e.m, .n = e.n, .k = e.k, .transpose_a = ta, .transpose_b = tb};
            p.a_stride = (ta ? e.m : e.k) + pad;
            p.b_stride = (tb ? e.k : e.n) + pad;
            p.c_stride = e.n + pad;
            const auto a = random_values((ta ? e.k : e.m) * p.a_stride, 1);
            const auto b = random_values((tb ? e.n : e.k) * p.b_stride, 2);
            const auto bias = random_values(e.n, 3);
            auto whole = random_values(e.m * p.c_stride, 4);
            auto cut = whole;
            p.a = a.data();
            p.b = b.data();
            p.bias = has_bias ? bias.data() : nullptr;
            p.accumulate = adds;
            p.c = whole.data();
            compute(p);
            p.c = cut.data();
            std::size_t parts = 0;
            for (const MatrixProduct& part : product_parts(p)) {
              compute(part);
              ++parts;
            }
            const bool cuts_terms = e.k > 1024 && (!ta || tb) && !has_bias;
            const bool cuts_rows = e.m > 1024 && ta;
            EXPECT_EQ(parts, e.n > 1024 && e.n % 8 != 0 ? 2u : cuts_terms || cuts_rows ? 2u : 1u);
            // Both round sums of double to fp32; a cut sum is rounded twice.
            for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(cut[i], whole[i], 0x1p-22 * 64) << i;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace zeroplan::kernels::cuda

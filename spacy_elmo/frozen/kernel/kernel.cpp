// Matrix products and LSTM steps of frozen weights on a CPU.
//
// For a single sentence, each LSTM step reads all weights and uses each weight only once. So memory
// limits the speed. Therefore weights are stored in a small type (float16 and bfloat16: half the bytes,
// int8: a quarter) and converted to float32 in registers. An LSTM step is one pass: it multiplies the
// gates of 16 units, applies their activations and updates the cell, all in the first-level cache.
//
// Layout: outputs are in panels of 16, `panel[k][16]` for float32 and float16, `panel[k / 2][16][2]`
// for bfloat16, `panel[k / 4][16][4]` for int8. An LSTM's outputs are in blocks of 64: 16 units of
// each of the gates o, i, f and j. All widths are multiples of 16, padded with zeros.
//
// This file is compiled once for each kernel in setup.py. `simd.h` contains the differences between instruction
// sets, and `processor.h` asks the processor for them.
// `numpy_kernel.py` computes the same in NumPy. It is the readable reference.

#include <cstdint>
#include <cstring>

#include "processor.h"
#include "simd.h"

#ifdef _WIN32
#define EXPORT extern "C" __declspec(dllexport)
#else
#define EXPORT extern "C" __attribute__((visibility("default")))
#endif

namespace {

constexpr int64_t CHUNK = 96;  // Rows to multiply with a block of weights while the cache has it.

enum Type { FLOAT32 = 0, FLOAT16 = 1, BFLOAT16 = 2, INT8 = 3 };

// Matrix of `n_outputs` x `n_inputs`, both padded, laid out by `PackedMatrix` in compiled.py.
struct Matrix {
    const void* panels;
    const float* scales;  // Scale of each output; only for int8.
    const int32_t* sums;  // Sum of each output's weights; only for int8.
    int64_t n_outputs, n_inputs;
    int32_t type;
};

// Input rows of a product: exact, and rounded to bfloat16 or int8 (plus `ZERO`). They are rounded once
// for all panels. A rounded row takes `2 * n_inputs` bytes.
struct Rows {
    const float* exact;
    uint8_t* low;
    float* scales;  // Scale of each row; only for int8.
    int64_t size;

    void round(const Matrix& w, int64_t n) {
        for (int64_t r = 0; r < n; r++) {
            if (w.type == BFLOAT16) round_bf16(exact + r * size, size, reinterpret_cast<uint16_t*>(low + r * size * 2));
            if (w.type == INT8) scales[r] = round_int8(exact + r * size, size, low + r * size * 2);
        }
    }
    Rows from(int64_t row) const { return {exact + row * size, low + row * size * 2, scales + row, size}; }
    const float* row(int r) const { return exact + r * size; }
    const uint8_t* low_row(int r) const { return low + r * size * 2; }
};

// Call `add(row, panel, input, weights)` for each row and each panel. All weights or all inputs are in
// registers, whichever are fewer: AVX2 has 16 registers, and a sum that does not fit doubles the time.
template <int ROWS, int N, class Input, class Weights, class Add>
INLINE void for_pairs(Input&& input, Weights&& weights, Add&& add) {
    if constexpr (N > ROWS) {
        decltype(input(0)) inputs[ROWS];
        for (int r = 0; r < ROWS; r++) inputs[r] = input(r);
        for (int n = 0; n < N; n++) {
            const auto of_panel = weights(n);
            for (int r = 0; r < ROWS; r++) add(r, n, inputs[r], of_panel);
        }
    } else {
        decltype(weights(0)) of_panels[N];
        for (int n = 0; n < N; n++) of_panels[n] = weights(n);
        for (int r = 0; r < ROWS; r++) {
            const auto of_row = input(r);
            for (int n = 0; n < N; n++) add(r, n, of_row, of_panels[n]);
        }
    }
}

template <int ROWS, int N, int TYPE>
INLINE void multiply_tile(const Matrix& w, int64_t panel, const Rows& x, P16 (*sums)[N]) {
    const int64_t size = w.n_inputs;
    const auto* at = static_cast<const typename Stored<TYPE>::type*>(w.panels) + panel * size * 16;
    for (int64_t k = 0; k < size; k++)
        for_pairs<ROWS, N>([&](int r) { return set16(x.row(r)[k]); },
                           [&](int n) { return load16<TYPE>(at + (n * size + k) * 16); },
                           [&](int r, int n, P16 input, P16 weights) { sums[r][n] = fma16(input, weights, sums[r][n]); });
}

template <int ROWS, int N>
INLINE void multiply_bf16(const Matrix& w, int64_t panel, const Rows& x, P16 (*sums)[N]) {
    const int64_t pairs = w.n_inputs / 2;
    const auto* at = static_cast<const uint16_t*>(w.panels) + panel * w.n_inputs * 16;
    for (int64_t k = 0; k < pairs; k++)
        for_pairs<ROWS, N>([&](int r) { return repeat_pair(x.low_row(r) + 4 * k); },
                           [&](int n) { return load_pairs(at + (n * pairs + k) * 32); },
                           [&](int r, int n, const Pairs& input, const Pairs& weights) {
                               sums[r][n] = dot_pairs(input, weights, sums[r][n]);
                           });
}

template <int ROWS, int N>
INLINE void multiply_int8(const Matrix& w, int64_t panel, const Rows& x, P16 (*sums)[N]) {
    const int64_t fours = w.n_inputs / 4;
    const auto* at = static_cast<const int8_t*>(w.panels) + panel * w.n_inputs * 16;
    I16 totals[ROWS][N];
    for (int r = 0; r < ROWS; r++)
        for (int n = 0; n < N; n++) totals[r][n] = without_zero(w.sums + (panel + n) * 16);
    for (int64_t k = 0; k < fours; k++)
        for_pairs<ROWS, N>([&](int r) { return repeat_four(x.low_row(r) + 4 * k); },
                           [&](int n) { return load_fours(at + (n * fours + k) * 64); },
                           [&](int r, int n, const Fours& input, const Weights& weights) {
                               totals[r][n] = dot_fours(input, weights, totals[r][n]);
                           });
    for (int r = 0; r < ROWS; r++)
        for (int n = 0; n < N; n++)
            sums[r][n] = fma16(x.scales[r], mul16(to_float(totals[r][n]), load16<FLOAT32>(w.scales + (panel + n) * 16)), sums[r][n]);
}

// Add to `sums` the products of `ROWS` rows with the 16 outputs of each of `N` panels, from `panel` on.
template <int ROWS, int N>
INLINE void multiply(const Matrix& w, int64_t panel, const Rows& x, P16 (*sums)[N]) {
    switch (w.type) {
        case FLOAT32: return multiply_tile<ROWS, N, FLOAT32>(w, panel, x, sums);
        case FLOAT16: return multiply_tile<ROWS, N, FLOAT16>(w, panel, x, sums);
        case BFLOAT16: return multiply_bf16<ROWS, N>(w, panel, x, sums);
        default: return multiply_int8<ROWS, N>(w, panel, x, sums);
    }
}

}  // namespace

#include "tiles.h"

namespace {

// Number of panels to multiply at a time: a divisor of 4, limited by the number of registers.
constexpr int panels_of(int rows) { return PANELS / rows >= 4 ? 4 : (PANELS / rows >= 2 ? 2 : 1); }
// The same for a single row. Each addition to a sum waits for the one before, so AVX-512 needs 8 sums at a time.
constexpr int ROW_PANELS = PANELS >= 8 ? 8 : 4;
// Number of blocks of an LSTM step that a single row computes before their activations, which then overlap.
constexpr int ROW_BLOCKS = 4;

// Load the weights of a block of 4 panels into the first-level cache, if it has room for this block and another.
// gcc deletes calls of a function that only prefetches, so it must be inlined.
INLINE void prefetch_block(const Matrix& w, int64_t panel) {
    constexpr int64_t SIZES[] = {4, 2, 2, 1}, ROOM = 16 << 10;
    const int64_t size = w.n_inputs * 64 * SIZES[w.type];
    if (size > ROOM || (panel + 4) * 16 > w.n_outputs) return;
    const char* at = static_cast<const char*>(w.panels) + panel / 4 * size;
    for (int64_t i = 0; i < size; i += 64) prefetch(at + i);
}

// Compute y = W x + before for one tile of rows and the panels from `first` to `end`. `before(panel)` points to
// 16 floats, or is null for zeros. `y` points to the output of the first panel; rows are `stride` floats apart.
template <int ROWS, int N, class Before>
void product_tile(const Matrix& w, int64_t first, int64_t end, const Rows& x, const Before& before, float* y,
                  int64_t stride) {
    int64_t panel = first;
    for (; panel + N <= end; panel += N) {
        P16 sums[ROWS][N];
        for (int n = 0; n < N; n++) {
            const float* at = before(panel + n);
            for (int r = 0; r < ROWS; r++) sums[r][n] = at ? load16<FLOAT32>(at) : zero16();
        }
        multiply<ROWS, N>(w, panel, x, sums);
        for (int r = 0; r < ROWS; r++)
            for (int n = 0; n < N; n++) store16(y + r * stride + (panel - first + n) * 16, sums[r][n]);
    }
    if constexpr (N > 1)
        if (panel < end) product_tile<ROWS, N / 2>(w, panel, end, x, before, y + (panel - first) * 16, stride);
}

// Update the cell state and compute the gated output of `n` times 16 units: one block of several rows, or
// several blocks of one row. `gates` is (n, 64). `cell` and `gated` have 16 floats for each, at the given distances.
inline void finish_step(const float* gates, int64_t n, float cell_clip, float* cell, int64_t cell_stride,
                        float* gated, int64_t gated_stride) {
    for (int64_t i = 0; i < n; i++) {
        const float* at = gates + i * 64;
        P16 state = next_cell16(load16<FLOAT32>(at + 32), load16<FLOAT32>(cell + i * cell_stride),
                                load16<FLOAT32>(at + 16), load16<FLOAT32>(at + 48));
        if (cell_clip > 0) state = clip16(state, cell_clip);
        store16(cell + i * cell_stride, state);
        store16(gated + i * gated_stride, gated_tanh16(load16<FLOAT32>(at), state));
    }
}

// Run an LSTM step for one block of 16 units and one tile of rows. `gates` points to the inputs' part of
// each row's gates. Add W h, then `finish_step`. In `cell`, the 16 units of a row follow those of the row
// before.
template <int ROWS>
void step_tile(const Matrix& w, int64_t block, const Rows& h, const float* const* gates, float cell_clip,
               float* cell, float* gated) {
    constexpr int N = panels_of(ROWS);
    const int64_t dim = w.n_outputs / 4;
    float sums_of_gates[ROWS * 64];
    for (int first = 0; first < 4; first += N) {
        P16 sums[ROWS][N];
        for (int r = 0; r < ROWS; r++)
            for (int n = 0; n < N; n++) sums[r][n] = load16<FLOAT32>(gates[r] + (first + n) * 16);
        multiply<ROWS, N>(w, block * 4 + first, h, sums);
        for (int r = 0; r < ROWS; r++)
            for (int n = 0; n < N; n++) store16(sums_of_gates + r * 64 + (first + n) * 16, sums[r][n]);
    }
    finish_step(sums_of_gates, ROWS, cell_clip, cell, 16, gated, dim);
}

// Cut rows into tiles, and call `call(first row, number of rows)` for each. Large tiles load fewer weights
// for each row. But many float32 rows are faster in square tiles of 6 rows, which stay in the cache.
template <class F>
inline void for_tiles(const Matrix& w, int64_t n_rows, F&& call) {
    const bool are_square = w.type == FLOAT32 && n_rows >= 48;
    int64_t row = 0;
    for (; !are_square && row + MAX_ROWS <= n_rows; row += MAX_ROWS) call(row, MAX_ROWS);
    for (; row + 6 <= n_rows; row += 6) call(row, 6);
    if (row < n_rows) call(row, static_cast<int>(n_rows - row));
}

#define BY_ROWS(n, CALL)        \
    switch (n) {                \
        case 1: CALL(1); break; \
        case 2: CALL(2); break; \
        case 3: CALL(3); break; \
        case 4: CALL(4); break; \
        case 5: CALL(5); break; \
        case 6: CALL(6); break; \
        default: CALL(MAX_ROWS); \
    }

}  // namespace

// Compute y = W x + bias for `n` rows. Shapes: `x` (n, n_inputs), `y` (n, n_outputs). If `blocked`, `y` is
// (n_outputs / 64, n, 64), the layout in which `elmo_lstm` reads gates. `space` is working memory of
// `CHUNK * (n_inputs / 2 + 1)` floats.
EXPORT void elmo_product(const Matrix* w, const float* x, const float* bias, int64_t n, int blocked, float* y,
                         float* space) {
    const int64_t n_panels = w->n_outputs / 16, width = w->n_inputs, stride = blocked ? 64 : w->n_outputs;
    for (int64_t start = 0; start < n; start += CHUNK) {
        const int64_t size = n - start < CHUNK ? n - start : CHUNK;
        Rows rows{x + start * width, reinterpret_cast<uint8_t*>(space + CHUNK), space, width};
        rows.round(*w, size);
#if defined(__AMX_TILE__)
        if (fit_tiles(*w, size)) {
            float sums[TILE_ROWS * 64];
            Tiles tiles;
            for (int64_t panel = 0; panel < n_panels; panel += 4)
                for (int64_t row = 0; row < size; row += TILE_ROWS) {
                    const int n_rows = size - row < TILE_ROWS ? size - row : TILE_ROWS;
                    const int of_block = n_panels - panel < 4 ? n_panels - panel : 4;
                    const auto before = [&](int) { return bias ? bias + panel * 16 : nullptr; };
                    tiles.configure(n_rows);
                    multiply_tiles(*w, panel, of_block, rows.from(row), n_rows, sums, before);
                    float* to = y + (start + row) * stride + panel * 16 * (blocked ? n : 1);
                    for (int r = 0; r < n_rows; r++)
                        std::memcpy(to + r * stride, sums + r * 64, of_block * 16 * sizeof(float));
                }
            continue;
        }
#endif
        const auto before = [&](int64_t panel) { return bias ? bias + panel * 16 : nullptr; };
        if (n == 1) {
            product_tile<1, ROW_PANELS>(*w, 0, n_panels, rows, before, y, 0);
            continue;
        }
        // A block's weights stay in the cache while all rows of the chunk are multiplied with them.
        for (int64_t panel = 0; panel < n_panels; panel += 4) {
            // An LSTM's steps evict the input weights of the next LSTM from the fast caches.
            if (blocked) prefetch_block(*w, panel + 4);
            for_tiles(*w, size, [&](int64_t row, int n_rows) {
                const int64_t end = panel + 4 < n_panels ? panel + 4 : n_panels;
                float* to = y + (start + row) * stride + panel * 16 * (blocked ? n : 1);
#define CALL(ROWS) product_tile<ROWS, panels_of(ROWS)>(*w, panel, end, rows.from(row), before, to, stride)
                BY_ROWS(n_rows, CALL)
#undef CALL
            });
        }
    }
}

// Run one LSTM layer in one direction over packed sequences. `gates` (D / 16, n_gates, 64) is a result of
// `elmo_product`. `rows` (n_items) is the row of gates of each item; null means that item n reads row n.
// `hidden` (n, P) and `cell` (n, D) are changed. A row without a step keeps its state. `outputs` is
// (n_items, P). `space` is working memory of `2 * n * D + max(n, CHUNK) * (max(D, P) / 2 + 1)` floats.
EXPORT void elmo_lstm(const Matrix* state, const Matrix* projection, const float* gates, int64_t n_gates,
                      const int64_t* rows, const int64_t* batch_sizes, int64_t n_steps, float cell_clip,
                      float proj_clip, float* hidden, float* cell, float* outputs, float* space) {
    const int64_t width = state->n_inputs, dim = state->n_outputs / 4, n_blocks = dim / 16, all = batch_sizes[0];
    // The cell is reordered by blocks, so that a block reads consecutive memory.
    float *cells = space, *gated = space + all * dim, *rest = gated + all * dim;
    for (int64_t r = 0; r < all; r++)
        for (int64_t b = 0; b < n_blocks; b++)
            store16(cells + (b * all + r) * 16, load16<FLOAT32>(cell + r * dim + b * 16));
    int64_t item = 0;
    for (int64_t step = 0; step < n_steps; item += batch_sizes[step++]) {
        const int64_t n = batch_sizes[step];
        Rows h{hidden, reinterpret_cast<uint8_t*>(rest + n), rest, width};
        h.round(*state, n);
        const auto gates_of = [&](int64_t block, int64_t row) {
            return gates + (block * n_gates + (rows ? rows[item + row] : item + row)) * 64;
        };
#if defined(__AMX_TILE__)
        if (fit_tiles(*state, n)) {
            float sums[TILE_ROWS * 64];
            Tiles tiles;
            for (int64_t block = 0; block < n_blocks; block++)
                for (int64_t row = 0; row < n; row += TILE_ROWS) {
                    const int n_rows = n - row < TILE_ROWS ? n - row : TILE_ROWS;
                    const auto before = [&](int r) { return gates_of(block, row + r); };
                    tiles.configure(n_rows);
                    multiply_tiles(*state, block * 4, 4, h.from(row), n_rows, sums, before);
                    float *to = gated + row * dim + block * 16, *now = cells + (block * all + row) * 16;
                    finish_step(sums, n_rows, cell_clip, now, 16, to, dim);
                }
        } else
#endif
        if (n == 1) {
            float sums[ROW_BLOCKS * 64];
            const auto before = [&](int64_t panel) { return gates_of(panel / 4, 0) + panel % 4 * 16; };
            const int64_t last = (n_blocks - 1) / ROW_BLOCKS * ROW_BLOCKS;
            for (int64_t i = 0; i < n_blocks; i += ROW_BLOCKS) {
                // Every other step goes backward: it begins with the weights that are still in the cache.
                const int64_t block = step % 2 ? last - i : i;
                const int64_t end = block + ROW_BLOCKS < n_blocks ? block + ROW_BLOCKS : n_blocks;
                product_tile<1, ROW_PANELS>(*state, block * 4, end * 4, h, before, sums, 0);
                finish_step(sums, end - block, cell_clip, cells + block * all * 16, all * 16, gated + block * 16, 16);
            }
        } else
        for (int64_t block = 0; block < n_blocks; block++)
            for_tiles(*state, n, [&](int64_t row, int n_rows) {
                const float* of_inputs[MAX_ROWS];
                for (int r = 0; r < n_rows; r++) of_inputs[r] = gates_of(block, row + r);
                // The gates of a large batch are in a slow cache. Load those of the next tile meanwhile.
                for (int64_t next = row + n_rows; next < row + 2 * n_rows; next++) {
                    if (next >= n && block + 1 == n_blocks) break;
                    const float* at = next < n ? gates_of(block, next) : gates_of(block + 1, next - n);
                    for (int i = 0; i < 64; i += 16) prefetch(at + i);
                }
                float *to = gated + row * dim + block * 16, *now = cells + (block * all + row) * 16;
#define CALL(ROWS) step_tile<ROWS>(*state, block, h.from(row), of_inputs, cell_clip, now, to)
                BY_ROWS(n_rows, CALL)
#undef CALL
            });
        float* out = outputs + item * width;
        if (projection->panels)
            elmo_product(projection, gated, nullptr, n, 0, out, rest);
        else
            std::memcpy(out, gated, n * dim * sizeof(float));
        if (projection->panels && proj_clip > 0)
            for (int64_t i = 0; i < n * width; i += 16)
                store16(out + i, clip16(load16<FLOAT32>(out + i), proj_clip));
        std::memcpy(hidden, out, n * width * sizeof(float));
    }
    for (int64_t r = 0; r < all; r++)
        for (int64_t b = 0; b < n_blocks; b++)
            store16(cell + r * dim + b * 16, load16<FLOAT32>(cells + (b * all + r) * 16));
}

// Compute the maximum of every filter over the positions of each token. `table` (n_characters, width,
// n_filters) contains the product of each character with each tap, `index` (n, length) the characters of
// each token. The result is `y` (n, n_filters).
EXPORT void elmo_convolve(const float* table, const int32_t* index, int64_t n, int64_t length,
                          int64_t width, int64_t n_filters, float* y) {
    for (int64_t token = 0; token < n; token++)
        for (int64_t f = 0; f < n_filters; f += 16) {
            P16 best = zero16();
            for (int64_t p = 0; p + width <= length; p++) {
                const int32_t* at = index + token * length + p;
                P16 sum = load16<FLOAT32>(table + at[0] * width * n_filters + f);
                for (int64_t t = 1; t < width; t++)
                    sum = add16(sum, load16<FLOAT32>(table + (at[t] * width + t) * n_filters + f));
                best = p ? larger16(best, sum) : sum;
            }
            store16(y + token * n_filters + f, best);
        }
}

// Return whether the processor can run this kernel. Nothing else may be called before.
EXPORT int elmo_is_supported() { return is_supported(); }

// Return whether the kernel is a good default on this processor.
EXPORT int elmo_is_worthwhile() { return is_worthwhile(); }

// Python locates the file but never imports it. setuptools exports this symbol on Windows.
EXPORT void* KERNEL_INIT() { return nullptr; }

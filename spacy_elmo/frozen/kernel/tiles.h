// Products of bfloat16 and int8 with Intel's matrix tiles (AMX), 16 rows times 16 outputs at a time.
// The panels of `kernel.cpp` need no other layout: 64 bytes of a panel are one row of a tile.
#pragma once

#if defined(__AMX_TILE__)

#include <immintrin.h>

namespace {

constexpr int TILE_ROWS = 16;

struct alignas(64) TileConfig {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
};

// Configuration of the tile registers, released at the end. Tiles 0 to 3 are the sums of four panels, 4
// the inputs, 5 and 6 weights. Configuring takes as long as some products, so it is done only if the
// number of rows changes.
class Tiles {
    int configured = 0;

public:
    void configure(int n_rows) {
        if (n_rows == configured) return;
        TileConfig config;
        for (int tile = 0; tile < 7; tile++) {
            config.row_bytes[tile] = 64;
            config.rows[tile] = tile < 5 ? n_rows : 16;
        }
        _tile_loadconfig(&config);
        configured = n_rows;
    }
    ~Tiles() { _tile_release(); }
};

// Return whether a product uses tiles. A row of a tile is 64 bytes of inputs. With few rows, int8 is faster
// without tiles, and its result is exactly the same. bfloat16 always uses them: another order of summation
// would change the result with the number of rows.
inline bool fit_tiles(const Matrix& w, int64_t n_rows) {
    if (w.type == INT8) return n_rows >= 6 && w.n_inputs % 64 == 0;
    return w.type == BFLOAT16 && w.n_inputs % 32 == 0;
}

#define ADD_PANEL(N, WEIGHTS)                                    \
    if (N < n_panels) {                                          \
        _tile_loadd(WEIGHTS, at + N * panel_bytes + k * 1024, 64); \
        if (TYPE == BFLOAT16) _tile_dpbf16ps(N, 4, WEIGHTS);     \
        else _tile_dpbusd(N, 4, WEIGHTS);                        \
    }

// Compute the products of up to 16 rows with up to 4 panels, from `panel` on. `sums` is (n_rows, 64), floats
// for bfloat16 and integers for int8.
template <int TYPE>
inline void sum_tiles(const Matrix& w, int64_t panel, int n_panels, const Rows& x, float* sums) {
    const int64_t row_bytes = w.n_inputs * (TYPE == BFLOAT16 ? 2 : 1), panel_bytes = row_bytes * 16;
    const auto* at = static_cast<const uint8_t*>(w.panels) + panel * panel_bytes;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t k = 0; k < row_bytes / 64; k++) {
        _tile_loadd(4, x.low + k * 64, x.size * 2);
        ADD_PANEL(0, 5)
        ADD_PANEL(1, 6)
        ADD_PANEL(2, 5)
        ADD_PANEL(3, 6)
    }
    _tile_stored(0, sums, 256);
    _tile_stored(1, sums + 16, 256);
    _tile_stored(2, sums + 32, 256);
    _tile_stored(3, sums + 48, 256);
}
#undef ADD_PANEL

// Compute `sums` (n_rows, 64): the floats at `start(r)`, 16 for each panel, plus the products of up to 16
// rows. Null means zeros.
template <class Start>
inline void multiply_tiles(const Matrix& w, int64_t panel, int n_panels, const Rows& x, int n_rows, float* sums,
                           Start&& start) {
    if (w.type == BFLOAT16) sum_tiles<BFLOAT16>(w, panel, n_panels, x, sums);
    else sum_tiles<INT8>(w, panel, n_panels, x, sums);
    for (int r = 0; r < n_rows; r++) {
        const float* before = start(r);
        for (int n = 0; n < n_panels; n++) {
            float* at = sums + r * 64 + n * 16;
            P16 sum = before ? load16<FLOAT32>(before + n * 16) : zero16();
            if (w.type == BFLOAT16) {
                sum = add16(sum, load16<FLOAT32>(at));
            } else {
                const I16 total = _mm512_add_epi32(_mm512_loadu_si512(at), without_zero(w.sums + (panel + n) * 16));
                const P16 scaled = mul16(to_float(total), load16<FLOAT32>(w.scales + (panel + n) * 16));
                sum = fma16(set16(x.scales[r]), scaled, sum);
            }
            store16(at, sum);
        }
    }
}

}  // namespace

#endif

// Operations on sixteen numbers, for each instruction set that the kernel is compiled for.
//
// `P16` contains 16 floats, and `I16` 16 integers. `Pairs` contains two bfloat16 for each of 16 outputs,
// `Weights` four int8 weights, and `Fours` four int8 inputs. `repeat_pair` and `repeat_four` repeat an input
// for all outputs. `dot_pairs` and `dot_fours` add products to sums.
//
// Inputs in int8 are stored plus `ZERO`: 128 where an instruction multiplies bytes without sign by bytes
// with sign, else 0. So sums start from `without_zero`: -`ZERO` times the sum of an output's weights.
//
// Invariant: what is not finite stays so, or a caller could not see that weights are damaged or too large.
// On x86, `min16` and `max16` return the second number if one of the two is NaN, so the value that may be
// NaN comes second. On ARM they return NaN.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

// Sums must stay in registers, and a compiler gives up on inlining long functions.
#ifdef _MSC_VER
#include <intrin.h>
#define INLINE __forceinline
#else
#define INLINE inline __attribute__((always_inline))
#endif

// MAX_ROWS: rows of the largest tile. PANELS: sums of 16 outputs (rows times panels) that fit the registers.
#if defined(__AVX512F__)
constexpr int MAX_ROWS = 12, PANELS = 24;
#else
constexpr int MAX_ROWS = 6, PANELS = 6;
#endif

namespace {

template <int TYPE> struct Stored { typedef float type; };
template <> struct Stored<1> { typedef uint16_t type; };
template <> struct Stored<2> { typedef uint16_t type; };
template <> struct Stored<3> { typedef int8_t type; };

inline float float_of(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

inline uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}

inline void prefetch(const void* at) {
#ifdef _MSC_VER
    _mm_prefetch(static_cast<const char*>(at), _MM_HINT_T0);
#else
    __builtin_prefetch(at);
#endif
}

// Keep a sum of int8 products in its register. Otherwise gcc multiplies all rows of a tile first, and moves
// the sums to memory.
template <class T> INLINE T in_register(T sum) {
#if defined(__GNUC__) && !defined(__ARM_NEON)
    __asm__ volatile("" : "+v"(sum));
#endif
    return sum;
}

inline uint32_t four_bytes(const uint8_t* at) {
    uint32_t bytes;
    std::memcpy(&bytes, at, 4);
    return bytes;
}

}  // namespace

#if defined(__AVX512F__)
#if defined(__GNUC__) && !defined(__clang__)
// Operations of gcc's own header begin with an undefined vector.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
namespace {
typedef __m512 P16;
inline P16 zero16() { return _mm512_setzero_ps(); }
inline P16 set16(float x) { return _mm512_set1_ps(x); }
template <int TYPE> inline P16 load16(const typename Stored<TYPE>::type* at) { return _mm512_loadu_ps(at); }
template <> inline P16 load16<1>(const uint16_t* at) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}
inline void store16(float* at, P16 x) { _mm512_storeu_ps(at, x); }
inline P16 fma16(P16 a, P16 b, P16 c) { return _mm512_fmadd_ps(a, b, c); }
inline P16 add16(P16 a, P16 b) { return _mm512_add_ps(a, b); }
inline P16 sub16(P16 a, P16 b) { return _mm512_sub_ps(a, b); }
inline P16 mul16(P16 a, P16 b) { return _mm512_mul_ps(a, b); }
inline P16 max16(P16 a, P16 b) { return _mm512_max_ps(a, b); }
inline P16 min16(P16 a, P16 b) { return _mm512_min_ps(a, b); }
inline P16 larger16(P16 best, P16 x) {
    return _mm512_mask_max_ps(x, _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), x, best);
}
inline P16 round16(P16 a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline P16 scale16(P16 a, P16 power) { return _mm512_scalef_ps(a, power); }
typedef __m512i I16;
inline P16 to_float(I16 a) { return _mm512_cvtepi32_ps(a); }
typedef __m512i Fours;
inline Fours repeat_four(const uint8_t* x) { return _mm512_set1_epi32(static_cast<int>(four_bytes(x))); }
#if defined(__AVX512VNNI__)
constexpr int ZERO = 128;
inline I16 without_zero(const int32_t* sums) { return _mm512_slli_epi32(_mm512_sub_epi32(_mm512_setzero_si512(), _mm512_loadu_si512(sums)), 7); }
typedef __m512i Weights;
inline Weights load_fours(const int8_t* at) { return _mm512_loadu_si512(at); }
inline I16 dot_fours(Fours x, Weights w, I16 sum) { return in_register(_mm512_dpbusd_epi32(sum, x, w)); }
#else
constexpr int ZERO = 0;
inline I16 without_zero(const int32_t*) { return _mm512_setzero_si512(); }
struct Weights { __m512i size; __mmask64 negative; };
inline Weights load_fours(const int8_t* at) {
    const __m512i w = _mm512_loadu_si512(at);
    return {_mm512_abs_epi8(w), _mm512_movepi8_mask(w)};
}
inline I16 dot_fours(Fours x, const Weights& w, I16 sum) {
    // The inputs get the signs of the weights. Two products of numbers up to 127 fit in 16 bits.
    const __m512i with_sign = _mm512_mask_sub_epi8(x, w.negative, _mm512_setzero_si512(), x);
    const __m512i twos = _mm512_maddubs_epi16(w.size, with_sign);
    return in_register(_mm512_add_epi32(sum, _mm512_madd_epi16(twos, _mm512_set1_epi16(1))));
}
#endif
#if defined(__AVX512BF16__)
typedef __m512bh Pairs;
inline Pairs load_pairs(const void* at) {
    Pairs pairs;  // Compilers disagree about casts to this type, and make one load of the copy.
    std::memcpy(&pairs, at, sizeof(pairs));
    return pairs;
}
inline Pairs repeat_pair(const uint8_t* x) {
    const __m512i repeated = _mm512_set1_epi32(static_cast<int>(four_bytes(x)));
    return load_pairs(&repeated);
}
inline P16 dot_pairs(Pairs x, Pairs w, P16 sum) { return _mm512_dpbf16_ps(sum, x, w); }
#else
typedef __m512i Pairs;
inline Pairs load_pairs(const void* at) { return _mm512_loadu_si512(at); }
inline Pairs repeat_pair(const uint8_t* x) { return _mm512_set1_epi32(static_cast<int>(four_bytes(x))); }
inline P16 first_of(Pairs x) { return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16)); }
inline P16 second_of(Pairs x) { return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32(static_cast<int>(0xffff0000u)))); }
inline P16 dot_pairs(Pairs x, Pairs w, P16 sum) {
    return fma16(second_of(x), second_of(w), fma16(first_of(x), first_of(w), sum));
}
#endif
inline P16 div16(P16 a, P16 b) {
    // 14 bits and one step of Newton's method take half the time of a division.
    const P16 near = _mm512_rcp14_ps(b);
    return mul16(a, mul16(near, _mm512_fnmadd_ps(b, near, set16(2.0f))));
}
}  // namespace

#elif defined(__AVX2__)
#include <immintrin.h>
namespace {
struct P16 { __m256 a, b; };
inline P16 zero16() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline P16 set16(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
template <int TYPE> inline P16 load16(const typename Stored<TYPE>::type* at) { return {_mm256_loadu_ps(at), _mm256_loadu_ps(at + 8)}; }
template <> inline P16 load16<1>(const uint16_t* at) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at + 8)))};
}
inline void store16(float* at, P16 x) { _mm256_storeu_ps(at, x.a); _mm256_storeu_ps(at + 8, x.b); }
inline P16 fma16(P16 a, P16 b, P16 c) { return {_mm256_fmadd_ps(a.a, b.a, c.a), _mm256_fmadd_ps(a.b, b.b, c.b)}; }
inline P16 add16(P16 a, P16 b) { return {_mm256_add_ps(a.a, b.a), _mm256_add_ps(a.b, b.b)}; }
inline P16 sub16(P16 a, P16 b) { return {_mm256_sub_ps(a.a, b.a), _mm256_sub_ps(a.b, b.b)}; }
inline P16 mul16(P16 a, P16 b) { return {_mm256_mul_ps(a.a, b.a), _mm256_mul_ps(a.b, b.b)}; }
inline P16 div16(P16 a, P16 b) { return {_mm256_div_ps(a.a, b.a), _mm256_div_ps(a.b, b.b)}; }
inline P16 max16(P16 a, P16 b) { return {_mm256_max_ps(a.a, b.a), _mm256_max_ps(a.b, b.b)}; }
inline P16 min16(P16 a, P16 b) { return {_mm256_min_ps(a.a, b.a), _mm256_min_ps(a.b, b.b)}; }
inline __m256 larger8(__m256 best, __m256 x) {
    return _mm256_or_ps(_mm256_max_ps(x, best), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
inline P16 larger16(P16 best, P16 x) { return {larger8(best.a, x.a), larger8(best.b, x.b)}; }
inline __m256 round8(__m256 a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline P16 round16(P16 a) { return {round8(a.a), round8(a.b)}; }
inline __m256 scale8(__m256 a, __m256 power) {
    // Adding to the exponent is faster than multiplying. NaN adds nothing: it converts to 1 << 31.
    const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(power), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), exponent));
}
inline P16 scale16(P16 a, P16 power) { return {scale8(a.a, power.a), scale8(a.b, power.b)}; }
struct I16 { __m256i a, b; };
inline P16 to_float(I16 x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
inline __m256i load8(const void* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }
typedef __m256i Fours;
inline Fours repeat_four(const uint8_t* x) { return _mm256_set1_epi32(static_cast<int>(four_bytes(x))); }
struct Weights { __m256i a, b; };
inline Weights load_fours(const int8_t* at) { return {load8(at), load8(at + 32)}; }
#if defined(__AVXVNNI__)
constexpr int ZERO = 128;
inline I16 without_zero(const int32_t* sums) {
    const __m256i zero = _mm256_setzero_si256();
    return {_mm256_slli_epi32(_mm256_sub_epi32(zero, load8(sums)), 7), _mm256_slli_epi32(_mm256_sub_epi32(zero, load8(sums + 8)), 7)};
}
inline __m256i dot8(__m256i x, __m256i w, __m256i sum) { return in_register(_mm256_dpbusd_avx_epi32(sum, x, w)); }
#else
constexpr int ZERO = 0;
inline I16 without_zero(const int32_t*) { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
inline __m256i dot8(__m256i x, __m256i w, __m256i sum) {
    // The inputs get the signs of the weights. Two products of numbers up to 127 fit in 16 bits.
    const __m256i twos = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return in_register(_mm256_add_epi32(sum, _mm256_madd_epi16(twos, _mm256_set1_epi16(1))));
}
#endif
inline I16 dot_fours(Fours x, const Weights& w, I16 sum) { return {dot8(x, w.a, sum.a), dot8(x, w.b, sum.b)}; }
struct Pairs { __m256i a, b; };
inline Pairs load_pairs(const uint16_t* at) { return {load8(at), load8(at + 16)}; }
inline Pairs repeat_pair(const uint8_t* x) {
    const uint32_t pair = four_bytes(x);
    return {_mm256_set1_epi32(static_cast<int>(pair << 16)), _mm256_set1_epi32(static_cast<int>(pair & 0xffff0000u))};
}
inline __m256 dot_pairs8(Pairs x, __m256i w, __m256 sum) {
    const __m256i second = _mm256_and_si256(w, _mm256_set1_epi32(static_cast<int>(0xffff0000u)));
    sum = _mm256_fmadd_ps(_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(_mm256_slli_epi32(w, 16)), sum);
    return _mm256_fmadd_ps(_mm256_castsi256_ps(x.b), _mm256_castsi256_ps(second), sum);
}
inline P16 dot_pairs(Pairs x, Pairs w, P16 sum) { return {dot_pairs8(x, w.a, sum.a), dot_pairs8(x, w.b, sum.b)}; }
}  // namespace

#elif defined(__ARM_NEON)
#include <arm_neon.h>
namespace {
#define LOOP for (int i = 0; i < 4; i++)
struct P16 { float32x4_t v[4]; };
inline P16 set16(float x) { P16 y; LOOP y.v[i] = vdupq_n_f32(x); return y; }
inline P16 zero16() { return set16(0.0f); }
template <int TYPE> inline P16 load16(const typename Stored<TYPE>::type* at) { P16 y; LOOP y.v[i] = vld1q_f32(at + 4 * i); return y; }
template <> inline P16 load16<1>(const uint16_t* at) {
    P16 y;
    LOOP y.v[i] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(at + 4 * i)));
    return y;
}
inline void store16(float* at, P16 x) { LOOP vst1q_f32(at + 4 * i, x.v[i]); }
inline P16 fma16(P16 a, P16 b, P16 c) { LOOP c.v[i] = vfmaq_f32(c.v[i], a.v[i], b.v[i]); return c; }
inline P16 add16(P16 a, P16 b) { LOOP a.v[i] = vaddq_f32(a.v[i], b.v[i]); return a; }
inline P16 sub16(P16 a, P16 b) { LOOP a.v[i] = vsubq_f32(a.v[i], b.v[i]); return a; }
inline P16 mul16(P16 a, P16 b) { LOOP a.v[i] = vmulq_f32(a.v[i], b.v[i]); return a; }
inline P16 div16(P16 a, P16 b) { LOOP a.v[i] = vdivq_f32(a.v[i], b.v[i]); return a; }
inline P16 max16(P16 a, P16 b) { LOOP a.v[i] = vmaxq_f32(a.v[i], b.v[i]); return a; }
inline P16 min16(P16 a, P16 b) { LOOP a.v[i] = vminq_f32(a.v[i], b.v[i]); return a; }
inline P16 larger16(P16 best, P16 x) { return max16(best, x); }
inline P16 round16(P16 a) { LOOP a.v[i] = vrndnq_f32(a.v[i]); return a; }
inline P16 scale16(P16 a, P16 power) {
    // NaN adds nothing to the exponent: it converts to 0.
    LOOP a.v[i] = vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(a.v[i]), vshlq_n_s32(vcvtq_s32_f32(power.v[i]), 23)));
    return a;
}
struct I16 { int32x4_t v[4]; };
inline P16 to_float(I16 a) { P16 y; LOOP y.v[i] = vcvtq_f32_s32(a.v[i]); return y; }
constexpr int ZERO = 0;
inline I16 without_zero(const int32_t*) { I16 y; LOOP y.v[i] = vdupq_n_s32(0); return y; }
struct Weights { int8x16_t v[4]; };
inline Weights load_fours(const int8_t* at) { Weights y; LOOP y.v[i] = vld1q_s8(at + 16 * i); return y; }
typedef int8x16_t Fours;
inline Fours repeat_four(const uint8_t* x) { return vreinterpretq_s8_u32(vdupq_n_u32(four_bytes(x))); }
inline I16 dot_fours(Fours x, const Weights& w, I16 sum) {
#if defined(__ARM_FEATURE_DOTPROD)
    LOOP sum.v[i] = vdotq_s32(sum.v[i], w.v[i], x);
#else
    // Two products of numbers up to 127 fit in 16 bits.
    LOOP {
        const int16x8_t first = vmull_s8(vget_low_s8(w.v[i]), vget_low_s8(x)), second = vmull_high_s8(w.v[i], x);
        sum.v[i] = vpadalq_s16(sum.v[i], vpaddq_s16(first, second));
    }
#endif
    return sum;
}
struct Pairs { uint32x4_t v[4]; };
inline Pairs load_pairs(const uint16_t* at) { Pairs y; LOOP y.v[i] = vreinterpretq_u32_u16(vld1q_u16(at + 8 * i)); return y; }
inline Pairs repeat_pair(const uint8_t* x) {
    Pairs y;
    y.v[0] = vdupq_n_u32(four_bytes(x) << 16);
    y.v[1] = vdupq_n_u32(four_bytes(x) & 0xffff0000u);
    return y;
}
inline P16 dot_pairs(const Pairs& x, const Pairs& w, P16 sum) {
    const float32x4_t first = vreinterpretq_f32_u32(x.v[0]), second = vreinterpretq_f32_u32(x.v[1]);
    LOOP sum.v[i] = vfmaq_f32(sum.v[i], first, vreinterpretq_f32_u32(vshlq_n_u32(w.v[i], 16)));
    LOOP sum.v[i] = vfmaq_f32(sum.v[i], second, vreinterpretq_f32_u32(vandq_u32(w.v[i], vdupq_n_u32(0xffff0000u))));
    return sum;
}
#undef LOOP
}  // namespace

#else
#error "The kernel needs AVX2, AVX-512 or NEON; without it numpy computes."
#endif

namespace {

inline P16 fma16(float a, P16 b, P16 c) { return fma16(set16(a), b, c); }

// Limit numbers to +-bound. Infinity becomes NaN: it is a sum that overflowed, which can have any true value.
inline P16 clip16(P16 x, float bound) {
    return fma16(0.0f, x, max16(set16(-bound), min16(set16(bound), x)));
}

// 2^x as 2^n times a polynomial of degree 5, with a relative error below 2e-7. |x| is at most 126.
inline P16 power16(P16 x) {
    const P16 n = round16(x), r = sub16(x, n);
    P16 y = fma16(set16(1.3264727253e-3f), r, set16(9.6715127858e-3f));
    y = fma16(y, r, set16(5.5507337445e-2f));
    y = fma16(y, r, set16(2.4022242083e-1f));
    y = fma16(y, r, set16(6.9314697760e-1f));
    y = fma16(y, r, set16(1.0f));
    return scale16(y, n);
}

// e^-x and e^-2x, limited so that a product of three of them does not overflow. A gate whose sum is beyond
// the limit is open or shut: the error is e^-28.
constexpr float LIMIT = 28.0f, LOG2_E = 1.44269504f;
inline P16 decay16(P16 x) { return power16(mul16(set16(-LOG2_E), clip16(x, LIMIT))); }
inline P16 decay_twice16(P16 x) { return power16(mul16(set16(-2 * LOG2_E), clip16(x, LIMIT / 2))); }

// sigmoid(x) tanh(y) = (1 - e^-2y) / ((1 + e^-x) (1 + e^-2y)), with a single division. Absolute errors of
// this and of `next_cell16` are below 3e-7 for cells up to 1.
inline P16 gated_tanh16(P16 x, P16 y) {
    const P16 one = set16(1.0f), decay = decay_twice16(y);
    return div16(sub16(one, decay), mul16(add16(one, decay16(x)), add16(one, decay)));
}

// sigmoid(f) c + sigmoid(i) tanh(j), also with a single division.
inline P16 next_cell16(P16 f, P16 c, P16 i, P16 j) {
    const P16 one = set16(1.0f), decay = decay_twice16(j), forgotten = add16(one, decay16(f));
    const P16 added = mul16(add16(one, decay16(i)), add16(one, decay));
    return div16(fma16(c, added, mul16(sub16(one, decay), forgotten)), mul16(added, forgotten));
}

constexpr uint32_t MAGNITUDE = 0x7fffffffu, INFINITE = 0x7f800000u;  // Bits of a float: all but the sign; infinity.

inline void round_bf16(const float* x, int64_t n, uint16_t* y) {
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = bits_of(x[i]), rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
        // Rounding would turn a NaN with many digits into zero.
        y[i] = static_cast<uint16_t>((bits & MAGNITUDE) > INFINITE ? 0x7fc0u : rounded);
    }
}

// Round a row to 8 bits, and return the scale: x = scale * (y - ZERO). It is NaN if a number is not finite.
inline float round_int8(const float* x, int64_t n, uint8_t* y) {
    // As integers, the numbers have the same order, and NaN comes after all of them.
    uint32_t bits = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t found = bits_of(x[i]) & MAGNITUDE;
        bits = found > bits ? found : bits;
    }
    const float largest = float_of(bits);
    // Below, the inverse is infinite.
    if (bits >= INFINITE || largest < 1e-36f) {
        std::memset(y, ZERO, static_cast<size_t>(n));
        return bits >= INFINITE ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
    }
    const float inverse = 127.0f / largest;
    for (int64_t i = 0; i < n; i++) y[i] = static_cast<uint8_t>(static_cast<int>(x[i] * inverse + 128.5f) + ZERO - 128);
    return largest / 127.0f;
}

}  // namespace

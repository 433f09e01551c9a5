// Does the processor have all instruction sets that this file is compiled for?
//
// The compiler says what it was allowed to use, so a kernel asks for exactly that. A virtual machine can mask
// any of it, even what all processors with the others have.
#pragma once

#include <cstdint>

#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64)

#ifdef _MSC_VER
#include <intrin.h>
#else
#include <cpuid.h>
#endif
#if defined(__AMX_TILE__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace {

enum Register { EAX, EBX, ECX, EDX };

// Place of an instruction set in the answers of CPUID. Names are those of gcc's options.
struct InstructionSet {
    const char* name;
    uint32_t leaf, subleaf;
    Register at;
    int bit;
};

constexpr InstructionSet NEEDED[] = {
    {"fma", 1, 0, ECX, 12},
    {"f16c", 1, 0, ECX, 29},
    {"avx2", 7, 0, EBX, 5},
#if defined(__AVXVNNI__)
    {"avxvnni", 7, 1, EAX, 4},
#endif
#if defined(__AVX512F__)
    {"avx512f", 7, 0, EBX, 16},
    {"avx512dq", 7, 0, EBX, 17},
    {"avx512bw", 7, 0, EBX, 30},
    {"avx512vl", 7, 0, EBX, 31},
#endif
#if defined(__AVX512VNNI__)
    {"avx512vnni", 7, 0, ECX, 11},
#endif
#if defined(__AVX512BF16__)
    {"avx512bf16", 7, 1, EAX, 5},
#endif
#if defined(__AMX_TILE__)
    {"amx-bf16", 7, 0, EDX, 22},
    {"amx-tile", 7, 0, EDX, 24},
    {"amx-int8", 7, 0, EDX, 25},
#endif
};

// Registers that the system must keep when it switches between processes, as bits of XCR0.
#if defined(__AMX_TILE__)
constexpr uint64_t KEPT = 0x600e6;
#elif defined(__AVX512F__)
constexpr uint64_t KEPT = 0xe6;
#else
constexpr uint64_t KEPT = 0x6;
#endif

inline void ask(uint32_t leaf, uint32_t subleaf, uint32_t (&answer)[4]) {
#ifdef _MSC_VER
    __cpuidex(reinterpret_cast<int*>(answer), static_cast<int>(leaf), static_cast<int>(subleaf));
#else
    __cpuid_count(leaf, subleaf, answer[EAX], answer[EBX], answer[ECX], answer[EDX]);
#endif
}

inline uint64_t kept_registers() {
#ifdef _MSC_VER
    return _xgetbv(0);
#else
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return static_cast<uint64_t>(high) << 32 | low;
#endif
}

inline bool is_supported() {
    constexpr uint32_t LAST = 7, XGETBV = 1u << 27;
    uint32_t answer[4];
    ask(0, 0, answer);
    if (answer[EAX] < LAST) return false;
    ask(1, 0, answer);
    if (!(answer[ECX] & XGETBV) || (kept_registers() & KEPT) != KEPT) return false;
    for (const InstructionSet& set : NEEDED) {
        ask(set.leaf, set.subleaf, answer);
        if (!(answer[set.at] >> set.bit & 1)) return false;
    }
#if defined(__AMX_TILE__)
    // Linux allows the tile registers to a process that asks for them.
    constexpr long ASK = 0x1023, TILE_DATA = 18;
    return syscall(SYS_arch_prctl, ASK, TILE_DATA) == 0;
#else
    return true;
#endif
}

// Return whether the kernel is faster on this processor than the next slower kernel. Intel's
// processors with BF16 but without AMX multiply float32 faster in batches. AMD's do not.
inline bool is_worthwhile() {
#if defined(__AVX512BF16__) && !defined(__AMX_TILE__)
    constexpr uint32_t GENU = 0x756e6547;  // The beginning of "GenuineIntel".
    uint32_t answer[4];
    ask(0, 0, answer);
    return answer[EBX] != GENU;
#else
    return true;
#endif
}

}  // namespace

#else

#if defined(__ARM_FEATURE_DOTPROD) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace {

// Every 64-bit ARM has NEON, and every one of Apple's has dot products.
inline bool is_supported() {
#if defined(__ARM_FEATURE_DOTPROD) && defined(__linux__)
    constexpr unsigned long DOT_PRODUCTS = 1ul << 20;
    return getauxval(AT_HWCAP) & DOT_PRODUCTS;
#else
    return true;
#endif
}

inline bool is_worthwhile() { return true; }

}  // namespace

#endif

/* fake_cuda.c - a stand-in for libcuda.so.1 that computes on the host what probes/compute.py asks a GPU for.
 * Written from the public driver API (cuda.h: names, argument order); no NVIDIA code.
 *   gcc -O2 -fPIC -shared -Wl,-soname,libcuda.so.1 -o libcuda.so.1 fake_cuda.c
 * FAKE_CUDA, words apart by spaces:
 *   refuse=NAME:CODE   that function returns the code      hang=NAME   it never returns
 *   memory             one bit of what is stored is lost   wrong       one result is wrong      free=MIB
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

static const char *after(const char *word) {
    const char *told = getenv("FAKE_CUDA");
    const char *at = told ? strstr(told, word) : NULL;
    return at ? at + strlen(word) : NULL;
}

static int asked(const char *name) {
    char word[80];
    snprintf(word, sizeof word, "hang=%s", name);
    while (after(word)) sleep(1);
    snprintf(word, sizeof word, "refuse=%s:", name);
    const char *code = after(word);
    return code ? atoi(code) : 0;
}
#define ASK int code = asked(__func__); if (code) return code

API int cuInit(unsigned flags) { (void)flags; ASK; return 0; }
API int cuDeviceGet(int *device, int ordinal) { ASK; *device = ordinal; return ordinal ? 101 : 0; }
API int cuDeviceGetName(char *name, int size, int device) { (void)device; ASK; snprintf(name, size, "Fake GPU"); return 0; }
API int cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; ASK; *context = (void *)1; return 0; }
API int cuCtxSetCurrent(void *context) { (void)context; ASK; return 0; }
API int cuModuleLoadData(void **module, const void *image) {
    ASK;
    *module = (void *)2;
    return strstr(image, ".visible .entry work") ? 0 : 218;
}
API int cuModuleGetFunction(void **function, void *module, const char *name) {
    (void)module;
    ASK;
    *function = strdup(name);
    return 0;
}
API int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    ASK;
    const char *mib = after("free=");
    *free_bytes = (size_t)(mib ? atoi(mib) : 16) << 20;
    *total = (size_t)64 << 20;
    return 0;
}
API int cuMemAlloc_v2(uint64_t *place, size_t size) { ASK; *place = (uint64_t)(uintptr_t)malloc(size); return *place ? 0 : 2; }
API int cuMemsetD32_v2(uint64_t place, unsigned value, size_t many) {
    ASK;
    for (size_t i = 0; i < many; i++) ((uint32_t *)(uintptr_t)place)[i] = value;
    return 0;
}
API int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { ASK; memcpy(to, (void *)(uintptr_t)from, size); return 0; }
API int cuCtxSynchronize(void) { ASK; return 0; }
API int cuGetErrorName(int code, const char **name) { static char words[32]; snprintf(words, sizeof words, "FAKE_ERROR_%d", code); *name = words; return 0; }

API int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                       void *stream, void **args, void **extra) {
    ASK;
    if (gy != 1 || gz != 1 || by != 1 || bz != 1 || shared || stream || extra) return 1;
    uint32_t *p = (uint32_t *)(uintptr_t) * (uint64_t *)args[0], many = *(uint32_t *)args[1], n = *(uint32_t *)args[2];
    if ((uint64_t)gx * bx < many) return 1;
    for (uint32_t i = 0; i < many; i++) {
        if (!strcmp(function, "fill")) {
            p[i] = i * 1664525u + n;
            if (i == 77 && after("memory")) p[i] ^= 4;
        } else if (!strcmp(function, "check")) {
            if (p[i] != i * 1664525u + n) ++*(uint32_t *)(uintptr_t) * (uint64_t *)args[3];
        } else {
            uint32_t x = i;
            for (uint32_t round = 0; round < n; round++) x = x * 1664525u + (uint32_t)((float)(x & 4095) * 3.0f + 1.0f);
            p[i] = x ^ (i == 5 && after("wrong") ? 1 : 0);
        }
    }
    return 0;
}

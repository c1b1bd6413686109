/* fake_nvml.c - a stand-in for libnvidia-ml.so.1 that answers from a text scenario.
 * Written from the public NVML ABI (names, struct layouts); no NVIDIA code.
 *   gcc -O2 -Wall -Wextra -fPIC -shared -pthread -Wl,-soname,libnvidia-ml.so.1 \
 *       -o libnvidia-ml.so.1 fake_nvml.c -lm
 *   FAKE_NVML=scenario.txt LD_LIBRARY_PATH=. nvitop -1
 *
 * Scenario: one "key = value" a line, '#' comments.
 *   gpus = 8                     number of GPUs
 *   driver = 535.183.01          cuda = 12020
 *   reload = 1                   re-read the file when it changes (looked at every 100 ms)
 *   util_wave = 1                utilisation, temperature and power move with time
 *   latency_us = 0               sleep this long in every device query (0 = none)
 *   latency_us.PcieThroughput = 20000     ... in queries whose name contains the word
 *   error.Init = 9               nvmlInit* returns 9 (DRIVER_NOT_LOADED)
 *   error.PowerUsage = 3         every query whose name contains PowerUsage returns 3
 *   hang.Init = 1                nvmlInit* never returns; hang.Temperature = 1: that query of any GPU
 *   missing.MemoryInfo_v2 = 1    the entry point answers FUNCTION_NOT_FOUND (13)
 *   gpu.*.KEY = V / gpu.3.KEY = V / gpu.0-3.KEY = V   with KEY one of
 *     name uuid serial mem_total_mib mem_used_mib mem_reserved_mib util util_mem enc dec temp
 *     slowdown_c shutdown_c gpu_max_c mem_temp power_mw limit_mw default_mw fan sm_clock
 *     mem_clock max_sm_clock max_mem_clock reasons ecc_mode ecc_vol_unc ecc_vol_cor ecc_agg_unc
 *     ecc_agg_cor remap_pending remap_failed remap_unc remap_cor retired_pending pcie_gen
 *     pcie_gen_max pcie_width pcie_width_max pcie_tx_kb pcie_rx_kb pcie_replay mig compute_mode
 *     persistence pstate sm_active tensor_active dram_active nvlinks cc recovery_action
 *     devid mig_devices nvlink_inactive nvlink_errors fabric_state fabric_status
 *     tlimit_slowdown tlimit_shutdown   (cc >= 89: fields 193-196 answer as margins, see gpu_max_c)
 *   gpu.3.slice = GI,CI,MIB,USED_MIB,PROFILE[,UUID]   a MIG device (with mig = 1); may be repeated (at most 8)
 *   gpu.3.slice_proc = N,PID,MIB     a program on its slice N
 *   gpu.3.nvlink_to = 1,4            4 links lead to GPU 1; may be repeated; those left lead to a switch
 *   gpu.3.proc = PID,MIB,C|G[,SM%[,MEM%]]   may be repeated
 *   gpu.3.error = 15             every query of that GPU returns 15 (GPU_IS_LOST)
 *   gpu.3.error_after_s = 5      ... only from 5 s after nvmlInit on
 *   gpu.3.error.Temperature = 3  only queries whose name contains the word
 *   gpu.3.hang = 1               nvmlDeviceGetHandleByIndex of that GPU never returns
 *   gpu.3.hang.Temperature = 1   queries of that GPU whose name contains the word never return
 *   gpu.3.handle_error = 15      nvmlDeviceGetHandleByIndex returns 15
 *   gpu.3.xid = 79 ; gpu.3.xid_after_s = 2    one Xid event for nvmlEventSetWait
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef int ret_t;
typedef unsigned int u32;
typedef unsigned long long u64;
enum { OK = 0, UNINIT = 1, INVAL = 2, NOTSUP = 3, NOTFOUND = 6, SMALL = 7, TIMEOUT = 10,
       NOFUNC = 13, VERMISMATCH = 25 };
#define API __attribute__((visibility("default")))
#define MAXPROC 1536
#define MAXRULE 64

#define MAXSLICE 8
typedef struct { u32 pid, mib, type, sm, mem, gi, ci; } proc_t;
typedef struct { char word[48]; int code; } rule_t;
typedef struct dev {
    u32 index;
    char name[96], uuid[96], serial[30];
    u64 mem_total, mem_used, mem_reserved;
    long util, util_mem, enc, dec, temp, slowdown, shutdown, gpumax, mem_temp, power, limit, deflimit,
        fan, sm_clock, mem_clock, max_sm, max_mem, reasons, ecc_mode, ecc_vu, ecc_vc, ecc_au, ecc_ac,
        rm_pending, rm_failed, rm_unc, rm_cor, ret_pending, gen, gen_max, width, width_max, tx, rx,
        replay, mig, compute_mode, persistence, pstate, sm_active, tensor_active, dram_active, nvlinks,
        cc, xid, xid_after, xid_sent, error, handle_error, recovery, tl_slow, tl_shut, devid, mig_devices,
        link_off, link_errors, fabric_state, fabric_status, hang;
    double error_after;
    proc_t proc[MAXPROC];
    u32 nproc;
    rule_t rule[16];
    u32 nrule;
    char hang_in[48];
    u32 is_slice, gi, ci, nslice, peer[18], npeer;   /* peer: for each NVLink the GPU at its other end, plus one */
    struct dev *slice[MAXSLICE], *whole;
} dev_t_;
typedef dev_t_ *D;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static D devs;
static u32 ndev, refs, nrule, nlat, nmiss, nhang;
static rule_t rules[MAXRULE], lats[MAXRULE], miss[MAXRULE], hangs[MAXRULE];
static int reload_on, wave, lat_all;
static char driver[80] = "535.183.01";
static int cuda_v = 12020;
static double t0, next_check;
static time_t seen_s; static long seen_ns; static ino_t seen_ino;
static u64 ncalls;

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }

static void dev_default(D d, u32 i) {
    struct dev *kept[MAXSLICE]; memcpy(kept, d->slice, sizeof kept);   /* handles stay valid */
    memset(d, 0, sizeof *d); memcpy(d->slice, kept, sizeof kept);
    d->index = i;
    snprintf(d->name, sizeof d->name, "NVIDIA A100-SXM4-80GB");
    snprintf(d->uuid, sizeof d->uuid, "GPU-fa4e0000-0000-4000-8000-%012x", i);
    snprintf(d->serial, sizeof d->serial, "16500%08u", i);
    d->mem_total = 81920ULL << 20; d->mem_reserved = 600ULL << 20; d->mem_used = 8921ULL << 20;
    d->util = 10; d->util_mem = 5; d->temp = 42; d->slowdown = 89; d->shutdown = 92; d->gpumax = 85;
    d->mem_temp = 50; d->power = 65000; d->limit = d->deflimit = 400000; d->fan = -1;
    d->sm_clock = 1410; d->mem_clock = 1593; d->max_sm = 1410; d->max_mem = 1593; d->ecc_mode = 1;
    d->gen = d->gen_max = 4; d->width = d->width_max = 16; d->tx = 1000; d->rx = 2000; d->persistence = 1;
    d->sm_active = 8; d->tensor_active = 2; d->dram_active = 4; d->cc = 80; d->mig = 0; d->error_after = 0; d->tl_slow = -2; d->tl_shut = -8; d->devid = 0x20B2;
}

static int set_long(D d, const char *k, const char *v) {
#define K(n, f) if (!strcmp(k, n)) { d->f = strtol(v, NULL, 0); return 1; }
    K("util", util) K("util_mem", util_mem) K("enc", enc) K("dec", dec) K("temp", temp)
    K("slowdown_c", slowdown) K("shutdown_c", shutdown) K("gpu_max_c", gpumax) K("mem_temp", mem_temp)
    K("power_mw", power) K("limit_mw", limit) K("default_mw", deflimit) K("fan", fan)
    K("sm_clock", sm_clock) K("mem_clock", mem_clock) K("max_sm_clock", max_sm) K("max_mem_clock", max_mem)
    K("reasons", reasons) K("ecc_mode", ecc_mode) K("ecc_vol_unc", ecc_vu) K("ecc_vol_cor", ecc_vc)
    K("ecc_agg_unc", ecc_au) K("ecc_agg_cor", ecc_ac) K("remap_pending", rm_pending)
    K("remap_failed", rm_failed) K("remap_unc", rm_unc) K("remap_cor", rm_cor)
    K("retired_pending", ret_pending) K("pcie_gen", gen) K("pcie_gen_max", gen_max) K("pcie_width", width)
    K("pcie_width_max", width_max) K("pcie_tx_kb", tx) K("pcie_rx_kb", rx) K("pcie_replay", replay)
    K("mig", mig) K("compute_mode", compute_mode) K("persistence", persistence) K("pstate", pstate)
    K("sm_active", sm_active) K("tensor_active", tensor_active) K("dram_active", dram_active)
    K("nvlinks", nvlinks) K("cc", cc) K("xid", xid) K("xid_after_s", xid_after) K("error", error)
    K("handle_error", handle_error) K("recovery_action", recovery) K("tlimit_slowdown", tl_slow) K("tlimit_shutdown", tl_shut)
    K("devid", devid) K("mig_devices", mig_devices) K("nvlink_inactive", link_off) K("nvlink_errors", link_errors)
    K("fabric_state", fabric_state) K("fabric_status", fabric_status) K("hang", hang)
#undef K
    return 0;
}

static void dev_default(D d, u32 i);
static D add_slice(D d) {
    if (d->nslice >= MAXSLICE) return NULL;
    D *s = &d->slice[d->nslice];
    if (!*s) *s = calloc(1, sizeof **s);
    dev_default(*s, d->index);
    (*s)->is_slice = 1; (*s)->whole = d; (*s)->gi = d->nslice + 1; (*s)->ci = 0; (*s)->mem_total = 9728ULL << 20; (*s)->mem_used = 12ULL << 20;
    snprintf((*s)->uuid, sizeof (*s)->uuid, "MIG-fa4e0000-0000-4000-8%03x-%012x", d->nslice, d->index);
    snprintf((*s)->name, sizeof (*s)->name, "%.60s MIG 1g.10gb", d->name);
    d->nslice++;
    return *s;
}
static void set_slice(D d, const char *v) {
    u32 gi, ci; unsigned long long total, used; char profile[32] = "1g.10gb", uuid[96] = "";
    if (sscanf(v, "%u,%u,%llu,%llu,%31[^,],%95s", &gi, &ci, &total, &used, profile, uuid) < 4) return;
    D s = add_slice(d); if (!s) return;
    s->gi = gi; s->ci = ci; s->mem_total = total << 20; s->mem_used = used << 20;
    snprintf(s->name, sizeof s->name, "%.50s MIG %.30s", d->name, profile);
    if (uuid[0]) snprintf(s->uuid, sizeof s->uuid, "%s", uuid);
}
static void set_slice_proc(D d, const char *v) {
    u32 n, pid, mib;
    if (sscanf(v, "%u,%u,%u", &n, &pid, &mib) < 3 || n >= d->nslice) return;
    D both[2] = {d, d->slice[n]};
    for (int i = 0; i < 2; i++) if (both[i]->nproc < MAXPROC) both[i]->proc[both[i]->nproc++] = (proc_t){pid, mib, 0, 0, 0, d->slice[n]->gi, d->slice[n]->ci};
}

static void set_dev(D d, const char *k, const char *v) {
    if (set_long(d, k, v)) return;
    if (!strcmp(k, "name")) snprintf(d->name, sizeof d->name, "%s", v);
    else if (!strcmp(k, "uuid")) snprintf(d->uuid, sizeof d->uuid, "%s", v);
    else if (!strcmp(k, "serial")) snprintf(d->serial, sizeof d->serial, "%s", v);
    else if (!strcmp(k, "mem_total_mib")) d->mem_total = strtoull(v, NULL, 0) << 20;
    else if (!strcmp(k, "mem_used_mib")) d->mem_used = strtoull(v, NULL, 0) << 20;
    else if (!strcmp(k, "mem_reserved_mib")) d->mem_reserved = strtoull(v, NULL, 0) << 20;
    else if (!strcmp(k, "error_after_s")) d->error_after = atof(v);
    else if (!strncmp(k, "error.", 6) && d->nrule < 16) {
        snprintf(d->rule[d->nrule].word, sizeof d->rule[0].word, "%s", k + 6);
        d->rule[d->nrule++].code = atoi(v);
    } else if (!strncmp(k, "hang.", 5)) snprintf(d->hang_in, sizeof d->hang_in, "%s", k + 5);
    else if (!strcmp(k, "slice")) set_slice(d, v);
    else if (!strcmp(k, "slice_proc")) set_slice_proc(d, v);
    else if (!strcmp(k, "nvlink_to")) {
        u32 other = 0, n = 1; sscanf(v, "%u,%u", &other, &n);
        while (n-- && d->npeer < 18) d->peer[d->npeer++] = other + 1;
        if (d->nvlinks < (long)d->npeer) d->nvlinks = d->npeer;
    }
    else if (!strcmp(k, "proc") && d->nproc < MAXPROC) {
        proc_t *p = &d->proc[d->nproc]; char ty = 'C'; p->sm = p->mem = 0; p->gi = p->ci = 0xFFFFFFFFu;
        if (sscanf(v, "%u,%u,%c,%u,%u", &p->pid, &p->mib, &ty, &p->sm, &p->mem) >= 2) { p->type = ty == 'G'; d->nproc++; }
    } else fprintf(stderr, "fake_nvml: unknown key %s\n", k);
}

static void load(void) {
    const char *path = getenv("FAKE_NVML");
    FILE *f = path ? fopen(path, "r") : NULL;
    char line[512]; u32 n = 1;
    nrule = nlat = nmiss = nhang = 0; reload_on = wave = lat_all = 0;
    if (f) { while (fgets(line, sizeof line, f)) sscanf(line, " gpus = %u", &n); rewind(f); }
    if (!devs) { devs = calloc(n ? n : 1, sizeof *devs); ndev = n; }   /* the count is fixed at the first load */
    for (u32 i = 0; i < ndev; i++) { long sent = devs[i].xid_sent; dev_default(&devs[i], i); devs[i].xid_sent = sent; }
    while (f && fgets(line, sizeof line, f)) {
        char *h = strchr(line, '#'); if (h) *h = 0;
        char *e = strchr(line, '='); if (!e) continue;
        *e++ = 0;
        char *k = line + strspn(line, " \t"); char *ke = k + strlen(k);
        while (ke > k && strchr(" \t", ke[-1])) *--ke = 0;
        e += strspn(e, " \t"); char *ve = e + strlen(e);
        while (ve > e && strchr(" \t\r\n", ve[-1])) *--ve = 0;
        if (!strcmp(k, "gpus")) continue;
        if (!strcmp(k, "driver")) snprintf(driver, sizeof driver, "%s", e);
        else if (!strcmp(k, "cuda")) cuda_v = atoi(e);
        else if (!strcmp(k, "reload")) reload_on = atoi(e);
        else if (!strcmp(k, "util_wave")) wave = atoi(e);
        else if (!strcmp(k, "latency_us")) lat_all = atoi(e);
        else if (!strncmp(k, "latency_us.", 11) && nlat < MAXRULE) { snprintf(lats[nlat].word, 48, "%s", k + 11); lats[nlat++].code = atoi(e); }
        else if (!strncmp(k, "error.", 6) && nrule < MAXRULE) { snprintf(rules[nrule].word, 48, "%s", k + 6); rules[nrule++].code = atoi(e); }
        else if (!strncmp(k, "hang.", 5) && nhang < MAXRULE) { snprintf(hangs[nhang].word, 48, "%s", k + 5); hangs[nhang++].code = 1; }
        else if (!strncmp(k, "missing.", 8) && nmiss < MAXRULE) { snprintf(miss[nmiss].word, 48, "%s", k + 8); miss[nmiss++].code = 13; }
        else if (!strncmp(k, "gpu.", 4)) {
            u32 a = 0, b = ndev ? ndev - 1 : 0; char *p = k + 4;
            if (*p == '*') p++;
            else { a = strtoul(p, &p, 10); b = a; if (*p == '-') b = strtoul(p + 1, &p, 10); }
            if (*p == '.') for (u32 i = a; i <= b && i < ndev; i++) set_dev(&devs[i], p + 1, e);
        } else fprintf(stderr, "fake_nvml: unknown key %s\n", k);
    }
    if (f) { struct stat s; if (!fstat(fileno(f), &s)) { seen_s = s.st_mtim.tv_sec; seen_ns = s.st_mtim.tv_nsec; seen_ino = s.st_ino; } fclose(f); }
}

static void maybe_reload(void) {
    if (!reload_on) return;
    double t = now(); if (t < next_check) return;
    next_check = t + 0.1;
    struct stat s; const char *p = getenv("FAKE_NVML");
    if (p && !stat(p, &s) && (s.st_mtim.tv_sec != seen_s || s.st_mtim.tv_nsec != seen_ns || s.st_ino != seen_ino)) load();
}

/* like a driver whose GPU does not answer: the call never returns */
static void hang_in(const char *fn) { for (u32 i = 0; i < nhang; i++) if (strstr(fn, hangs[i].word)) for (;;) pause(); }

static int known(D d) {
    if (d >= devs && d < devs + ndev) return 1;
    for (u32 i = 0; i < ndev; i++) for (u32 n = 0; n < devs[i].nslice; n++) if (devs[i].slice[n] == d) return 1;
    return 0;
}
/* gate every query: initialised? known handle? an injected error? */
static ret_t gate(const char *fn, D d, int has_dev) {
    __atomic_add_fetch(&ncalls, 1, __ATOMIC_RELAXED);
    if (!refs) return UNINIT;
    if (reload_on) { pthread_mutex_lock(&mu); maybe_reload(); pthread_mutex_unlock(&mu); }
    hang_in(fn);
    for (u32 i = 0; i < nmiss; i++) if (strstr(fn, miss[i].word)) return NOFUNC;
    for (u32 i = 0; i < nrule; i++) if (strcmp(rules[i].word, "Init") && (rules[i].word[0] == '*' || strstr(fn, rules[i].word))) return rules[i].code;
    if (has_dev) {
        if (!known(d)) return INVAL;
        if (d->hang_in[0] && strstr(fn, d->hang_in)) for (;;) pause();
        int us = lat_all;
        for (u32 i = 0; i < nlat; i++) if (strstr(fn, lats[i].word)) us = lats[i].code;
        if (us) usleep(us);
        if (d->is_slice && !strstr(fn, "Name") && !strstr(fn, "UUID") && !strstr(fn, "Memory") && !strstr(fn, "Mig") && !strstr(fn, "Instance")
            && !strstr(fn, "Processes") && !strstr(fn, "Capability") && !strstr(fn, "Attributes")) return NOTSUP;   /* as nvml.h says of MIG handles */
        if (!d->is_slice && d->mig > 0 && strstr(fn, "Utilization")) return NOTSUP;
        if (d->error || d->nrule) {
            if (d->error_after > 0 && now() - t0 < d->error_after) return OK;
            for (u32 i = 0; i < d->nrule; i++) if (strstr(fn, d->rule[i].word)) return d->rule[i].code;
            if (d->error) return (int)d->error;
        }
    }
    return OK;
}
#define G(d) do { ret_t r_ = gate(__func__, d, 1); if (r_) return r_; } while (0)
#define GS() do { ret_t r_ = gate(__func__, NULL, 0); if (r_) return r_; } while (0)
#define NN(p) do { if (!(p)) return INVAL; } while (0)
static double wv(D d) { return wave ? 0.5 + 0.5 * sin(now() * 0.7 + d->index) : 1.0; }
static u32 putstr(char *o, u32 n, const char *s) { if (n < strlen(s) + 1) return SMALL; strcpy(o, s); return OK; }

API ret_t nvmlInitWithFlags(u32 flags) {
    (void)flags;
    pthread_mutex_lock(&mu);
    if (!refs) { load(); t0 = now(); }
    ret_t r = OK;
    hang_in("nvmlInit");
    for (u32 i = 0; i < nrule; i++) if (!strcmp(rules[i].word, "Init")) r = rules[i].code;
    if (!r) refs++;
    pthread_mutex_unlock(&mu);
    return r;
}
API ret_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API ret_t nvmlInit(void) { return nvmlInitWithFlags(0); }
API ret_t nvmlShutdown(void) {
    pthread_mutex_lock(&mu);
    ret_t r = refs ? OK : UNINIT; if (refs) refs--;
    if (!refs && getenv("FAKE_NVML_COUNT")) fprintf(stderr, "fake_nvml: %llu calls\n", ncalls);
    pthread_mutex_unlock(&mu);
    return r;
}
API u64 fake_nvml_calls(void) { return ncalls; }
API const char *nvmlErrorString(ret_t r) {
    static const char *const s[] = {"Success", "Uninitialized", "Invalid Argument", "Not Supported",
        "Insufficient Permissions", "Already Initialized", "Not Found", "Insufficient Size",
        "Insufficient External Power", "Driver Not Loaded", "Timeout", "Interrupt Request Issue",
        "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM", "GPU is lost",
        "GPU requires reset", "The operating system has blocked the request", "RM has detected an NVML/RM version mismatch",
        "GPU is currently in use", "Insufficient Memory"};
    return r >= 0 && r < (int)(sizeof s / sizeof *s) ? s[r] : "Unknown Error";
}
API ret_t nvmlSystemGetDriverVersion(char *o, u32 n) { GS(); return putstr(o, n, driver); }
API ret_t nvmlSystemGetNVMLVersion(char *o, u32 n) { GS(); char b[96]; snprintf(b, sizeof b, "12.%s", driver); return putstr(o, n, b); }
API ret_t nvmlSystemGetCudaDriverVersion(int *v) { GS(); *v = cuda_v; return OK; }
API ret_t nvmlSystemGetCudaDriverVersion_v2(int *v) { GS(); *v = cuda_v; return OK; }
API ret_t nvmlSystemGetProcessName(u32 pid, char *o, u32 n) {
    GS(); char p[64], b[256] = ""; snprintf(p, sizeof p, "/proc/%u/comm", pid);
    FILE *f = fopen(p, "r"); if (!f) return NOTFOUND;
    if (fgets(b, sizeof b, f)) b[strcspn(b, "\n")] = 0;
    fclose(f); snprintf(o, n, "%s", b); return OK;
}
API ret_t nvmlDeviceGetCount_v2(u32 *n) { GS(); *n = ndev; return OK; }
API ret_t nvmlDeviceGetCount(u32 *n) { GS(); *n = ndev; return OK; }
API ret_t nvmlUnitGetCount(u32 *n) { GS(); *n = 0; return OK; }
API ret_t nvmlDeviceGetHandleByIndex_v2(u32 i, D *o) {
    GS(); NN(o); if (i >= ndev) return INVAL;
    D d = &devs[i];
    if (d->hang) for (;;) pause();
    if (d->handle_error && (d->error_after <= 0 || now() - t0 >= d->error_after)) return (int)d->handle_error;
    *o = d; return OK;
}
API ret_t nvmlDeviceGetHandleByIndex(u32 i, D *o) { return nvmlDeviceGetHandleByIndex_v2(i, o); }
API ret_t nvmlDeviceGetHandleByUUID(const char *u, D *o) { GS(); for (u32 i = 0; i < ndev; i++) if (!strcmp(devs[i].uuid, u)) { *o = &devs[i]; return OK; } return NOTFOUND; }
API ret_t nvmlDeviceGetHandleBySerial(const char *u, D *o) { GS(); for (u32 i = 0; i < ndev; i++) if (!strcmp(devs[i].serial, u)) { *o = &devs[i]; return OK; } return NOTFOUND; }
static void busid(D d, char *o, u32 n, int wide) { snprintf(o, n, wide ? "%08X:%02X:00.0" : "%04X:%02X:00.0", d->index / 200, 0x1A + d->index % 200); }
API ret_t nvmlDeviceGetHandleByPciBusId_v2(const char *b, D *o) {
    GS(); char t[32];
    for (u32 i = 0; i < ndev; i++) for (int w = 0; w < 2; w++) { busid(&devs[i], t, 32, w); if (!strcasecmp(t, b)) { *o = &devs[i]; return OK; } }
    return NOTFOUND;
}
API ret_t nvmlDeviceGetHandleByPciBusId(const char *b, D *o) { return nvmlDeviceGetHandleByPciBusId_v2(b, o); }

API ret_t nvmlDeviceGetName(D d, char *o, u32 n) { G(d); return putstr(o, n, d->name); }
API ret_t nvmlDeviceGetUUID(D d, char *o, u32 n) { G(d); return putstr(o, n, d->uuid); }
API ret_t nvmlDeviceGetSerial(D d, char *o, u32 n) { G(d); return putstr(o, n, d->serial); }
API ret_t nvmlDeviceGetVbiosVersion(D d, char *o, u32 n) { G(d); return putstr(o, n, "92.00.45.00.03"); }
API ret_t nvmlDeviceGetBoardPartNumber(D d, char *o, u32 n) { G(d); return putstr(o, n, "FAKE-00000-0000-000"); }
#define GETU(fn, expr) API ret_t fn(D d, u32 *o) { G(d); NN(o); *o = (u32)(expr); return OK; }
GETU(nvmlDeviceGetIndex, d->index)
GETU(nvmlDeviceGetMinorNumber, d->index)
GETU(nvmlDeviceGetBrand, 14)
GETU(nvmlDeviceGetArchitecture, d->cc >= 100 ? 10 : d->cc >= 90 ? 9 : d->cc == 89 ? 8 : d->cc >= 80 ? 7 : 6)
GETU(nvmlDeviceGetPowerManagementMode, 1)
GETU(nvmlDeviceGetPowerUsage, d->power * (wave ? 0.4 + 0.6 * wv(d) : 1))
GETU(nvmlDeviceGetPowerManagementLimit, d->limit)
GETU(nvmlDeviceGetPowerManagementDefaultLimit, d->deflimit)
GETU(nvmlDeviceGetEnforcedPowerLimit, d->limit)
GETU(nvmlDeviceGetPerformanceState, d->pstate)
GETU(nvmlDeviceGetPowerState, d->pstate)
GETU(nvmlDeviceGetComputeMode, d->compute_mode)
GETU(nvmlDeviceGetPersistenceMode, d->persistence)
GETU(nvmlDeviceGetDisplayMode, 0)
GETU(nvmlDeviceGetDisplayActive, 0)
GETU(nvmlDeviceGetCurrPcieLinkGeneration, d->gen)
GETU(nvmlDeviceGetCurrPcieLinkWidth, d->width)
GETU(nvmlDeviceGetMaxPcieLinkGeneration, d->gen_max)
GETU(nvmlDeviceGetGpuMaxPcieLinkGeneration, d->gen_max)
GETU(nvmlDeviceGetMaxPcieLinkWidth, d->width_max)
GETU(nvmlDeviceGetPcieReplayCounter, d->replay)
GETU(nvmlDeviceGetRetiredPagesPendingStatus, d->ret_pending)
GETU(nvmlDeviceGetNumFans, d->fan < 0 ? 0 : 1)
GETU(nvmlDeviceGetNumGpuCores, 6912)
GETU(nvmlDeviceGetMaxMigDeviceCount, d->mig ? 7 : 0)
GETU(nvmlDeviceIsMigDeviceHandle, d->is_slice)
API ret_t nvmlDeviceGetGpuInstanceId(D d, u32 *o) { G(d); NN(o); if (!d->is_slice) return NOTSUP; *o = d->gi; return OK; }
API ret_t nvmlDeviceGetComputeInstanceId(D d, u32 *o) { G(d); NN(o); if (!d->is_slice) return NOTSUP; *o = d->ci; return OK; }
API ret_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(D d, D *o) { G(d); NN(o); if (!d->is_slice) return INVAL; *o = d->whole; return OK; }
GETU(nvmlDeviceGetMultiGpuBoard, 0)
API ret_t nvmlDeviceGetPowerManagementLimitConstraints(D d, u32 *lo, u32 *hi) { G(d); *lo = 100000; *hi = (u32)d->deflimit; return OK; }
API ret_t nvmlDeviceGetTotalEnergyConsumption(D d, u64 *e) { G(d); *e = (u64)((now() - t0) * d->power); return OK; }
API ret_t nvmlDeviceGetFanSpeed(D d, u32 *o) { G(d); if (d->fan < 0) return NOTSUP; *o = (u32)d->fan; return OK; }
API ret_t nvmlDeviceGetFanSpeed_v2(D d, u32 f, u32 *o) { G(d); if (d->fan < 0) return NOTSUP; if (f) return INVAL; *o = (u32)d->fan; return OK; }
API ret_t nvmlDeviceGetCudaComputeCapability(D d, int *a, int *b) { G(d); *a = d->cc / 10; *b = d->cc % 10; return OK; }
API ret_t nvmlDeviceGetMigMode(D d, u32 *a, u32 *b) { G(d); if (d->mig < 0) return NOTSUP; *a = *b = (u32)d->mig; return OK; }
API ret_t nvmlDeviceGetMigDeviceHandleByIndex(D d, u32 i, D *o) { G(d); NN(o); while (d->mig > 0 && (long)d->nslice < d->mig_devices && add_slice(d)) ; if (d->mig <= 0 || i >= d->nslice) return NOTFOUND; *o = d->slice[i]; return OK; }
API ret_t nvmlDeviceGetDriverModel(D d, u32 *a, u32 *b) { G(d); (void)a; (void)b; return NOTSUP; }
API ret_t nvmlDeviceGetDriverModel_v2(D d, u32 *a, u32 *b) { G(d); (void)a; (void)b; return NOTSUP; }

typedef struct { char legacy[16]; u32 domain, bus, device, devid, subid; char busid[32]; } pci_t;
API ret_t nvmlDeviceGetPciInfo_v3(D d, pci_t *p) {
    G(d); memset(p, 0, sizeof *p); char t[32];
    busid(d, t, sizeof t, 0); memcpy(p->legacy, t, 15); busid(d, p->busid, sizeof p->busid, 1);
    p->domain = d->index / 200; p->bus = 0x1A + d->index % 200; p->devid = (u32)(d->devid << 16 | 0x10DE); p->subid = 0x147F10DE;
    return OK;
}
API ret_t nvmlDeviceGetPciInfo_v2(D d, pci_t *p) { return nvmlDeviceGetPciInfo_v3(d, p); }
API ret_t nvmlDeviceGetPciInfo(D d, pci_t *p) { return nvmlDeviceGetPciInfo_v3(d, p); }

typedef struct { u64 total, free, used; } mem1_t;
typedef struct { u32 version; u64 total, reserved, free, used; } mem2_t;
API ret_t nvmlDeviceGetMemoryInfo(D d, mem1_t *m) { G(d); m->total = d->mem_total; m->used = d->mem_used + d->mem_reserved; m->free = m->total - m->used; return OK; }
API ret_t nvmlDeviceGetMemoryInfo_v2(D d, mem2_t *m) {
    G(d); if (m->version != 0x02000028) return VERMISMATCH;
    m->total = d->mem_total; m->used = d->mem_used; m->reserved = d->mem_reserved; m->free = m->total - m->used - m->reserved; return OK;
}
API ret_t nvmlDeviceGetBAR1MemoryInfo(D d, mem1_t *m) { /* order: total, free, used */ G(d); m->total = 128ULL << 30; m->used = 1ULL << 20; m->free = m->total - m->used; return OK; }
typedef struct { u32 gpu, mem; } util_t;
API ret_t nvmlDeviceGetUtilizationRates(D d, util_t *u) { G(d); u->gpu = (u32)(d->util * wv(d)); u->mem = (u32)(d->util_mem * wv(d)); return OK; }
API ret_t nvmlDeviceGetEncoderUtilization(D d, u32 *u, u32 *p) { G(d); *u = (u32)d->enc; *p = 167000; return OK; }
API ret_t nvmlDeviceGetDecoderUtilization(D d, u32 *u, u32 *p) { G(d); *u = (u32)d->dec; *p = 167000; return OK; }
API ret_t nvmlDeviceGetTemperature(D d, u32 s, u32 *t) { G(d); if (s) return INVAL; *t = (u32)(d->temp - (wave ? 5 * (1 - wv(d)) : 0)); return OK; }
typedef struct { u32 version, sensor; int t; } temp_t;
API ret_t nvmlDeviceGetTemperatureV(D d, temp_t *t) { G(d); if (t->version != 0x100000C) return VERMISMATCH; t->t = (int)d->temp; return OK; }
API ret_t nvmlDeviceGetTemperatureThreshold(D d, u32 k, u32 *t) {
    G(d);
    switch (k) { case 0: *t = (u32)d->shutdown; return OK; case 1: *t = (u32)d->slowdown; return OK;
                 case 2: *t = 95; return OK; case 3: *t = (u32)d->gpumax; return OK; default: return NOTSUP; }
}
typedef struct { u32 version; int margin; } margin_t;
API ret_t nvmlDeviceGetMarginTemperature(D d, margin_t *m) { G(d); if (d->cc < 89) return NOTSUP; if (m->version != 0x1000008) return VERMISMATCH; m->margin = (int)(d->gpumax - d->temp); return OK; }
API ret_t nvmlDeviceGetClockInfo(D d, u32 k, u32 *c) { G(d); *c = (u32)(k == 2 ? d->mem_clock : k == 3 ? d->sm_clock * 9 / 10 : d->sm_clock); return OK; }
API ret_t nvmlDeviceGetMaxClockInfo(D d, u32 k, u32 *c) { G(d); *c = (u32)(k == 2 ? d->max_mem : k == 3 ? d->max_sm * 9 / 10 : d->max_sm); return OK; }
API ret_t nvmlDeviceGetClock(D d, u32 k, u32 id, u32 *c) { G(d); (void)id; *c = (u32)(k == 2 ? d->mem_clock : d->sm_clock); return OK; }
API ret_t nvmlDeviceGetCurrentClocksEventReasons(D d, u64 *r) { G(d); *r = (u64)d->reasons; return OK; }
API ret_t nvmlDeviceGetCurrentClocksThrottleReasons(D d, u64 *r) { G(d); *r = (u64)d->reasons; return OK; }
API ret_t nvmlDeviceGetSupportedClocksEventReasons(D d, u64 *r) { G(d); *r = 0x1ff; return OK; }
API ret_t nvmlDeviceGetSupportedClocksThrottleReasons(D d, u64 *r) { G(d); *r = 0x1ff; return OK; }
typedef struct { u64 ref, viol; } viol_t;
API ret_t nvmlDeviceGetViolationStatus(D d, u32 k, viol_t *v) { G(d); v->ref = (u64)((now() - t0) * 1e9); v->viol = (k == 0 && (d->reasons & 4)) || (k == 1 && (d->reasons & 0x60)) ? v->ref : 0; return OK; }
API ret_t nvmlDeviceGetEccMode(D d, u32 *a, u32 *b) { G(d); if (d->ecc_mode < 0) return NOTSUP; *a = *b = (u32)d->ecc_mode; return OK; }
API ret_t nvmlDeviceGetTotalEccErrors(D d, u32 et, u32 ct, u64 *n) { G(d); if (d->ecc_mode <= 0) return NOTSUP; *n = (u64)(et ? (ct ? d->ecc_au : d->ecc_vu) : (ct ? d->ecc_ac : d->ecc_vc)); return OK; }
API ret_t nvmlDeviceGetMemoryErrorCounter(D d, u32 et, u32 ct, u32 loc, u64 *n) { G(d); if (d->ecc_mode <= 0) return NOTSUP; *n = loc == 2 ? (u64)(et ? (ct ? d->ecc_au : d->ecc_vu) : (ct ? d->ecc_ac : d->ecc_vc)) : 0; return OK; }
API ret_t nvmlDeviceGetRetiredPages(D d, u32 c, u32 *n, u64 *a) { G(d); (void)c; (void)a; *n = 0; return OK; }
API ret_t nvmlDeviceGetRemappedRows(D d, u32 *c, u32 *u, u32 *p, u32 *f) { G(d); *c = (u32)d->rm_cor; *u = (u32)d->rm_unc; *p = (u32)d->rm_pending; *f = (u32)d->rm_failed; return OK; }
API ret_t nvmlDeviceGetPcieThroughput(D d, u32 k, u32 *v) { G(d); *v = (u32)(k ? d->rx : d->tx); return OK; }
API ret_t nvmlDeviceGetNvLinkState(D d, u32 l, u32 *a) { G(d); if ((long)l >= d->nvlinks) return d->nvlinks ? INVAL : NOTSUP; *a = (long)l < d->nvlinks - d->link_off; return OK; }
API ret_t nvmlDeviceGetNvLinkRemotePciInfo_v2(D d, u32 l, pci_t *p) {
    G(d); NN(p); if ((long)l >= d->nvlinks) return d->nvlinks ? INVAL : NOTSUP;
    memset(p, 0, sizeof *p);
    if (l < d->npeer && d->peer[l] - 1 < ndev) busid(&devs[d->peer[l] - 1], p->busid, sizeof p->busid, 1);
    else snprintf(p->busid, sizeof p->busid, "00000000:%02X:00.0", 0xC0 + l % 6);
    return OK;
}
API ret_t nvmlDeviceGetNvLinkRemotePciInfo(D d, u32 l, pci_t *p) { return nvmlDeviceGetNvLinkRemotePciInfo_v2(d, l, p); }
API ret_t nvmlDeviceGetNvLinkErrorCounter(D d, u32 l, u32 c, u64 *n) { G(d); NN(n); if ((long)l >= d->nvlinks) return d->nvlinks ? INVAL : NOTSUP; *n = c == 2 && l == 0 ? (u64)d->link_errors : 0; return OK; }
typedef struct { unsigned char cluster[16]; ret_t status; u32 clique; unsigned char state; } fabric_t;
API ret_t nvmlDeviceGetGpuFabricInfo(D d, fabric_t *f) { G(d); NN(f); memset(f, 0, sizeof *f); f->state = (unsigned char)d->fabric_state; f->status = (ret_t)d->fabric_status; return OK; }

typedef struct { u32 pid; u64 mem; } pi1_t;
typedef struct { u32 pid; u64 mem; u32 gi, ci; } pi2_t;
static ret_t procs(D d, u32 want, u32 *n, void *o, int v1) {
    u32 have = 0;
    for (u32 i = 0; i < d->nproc; i++) if (d->proc[i].type == want) have++;
    if (!have) { *n = 0; return OK; }
    if (!o || *n < have) { *n = have; return SMALL; }
    have = 0;
    for (u32 i = 0; i < d->nproc; i++) if (d->proc[i].type == want) {
        if (v1) { pi1_t *p = (pi1_t *)o + have; p->pid = d->proc[i].pid; p->mem = (u64)d->proc[i].mib << 20; }
        else { pi2_t *p = (pi2_t *)o + have; p->pid = d->proc[i].pid; p->mem = (u64)d->proc[i].mib << 20; p->gi = d->proc[i].gi; p->ci = d->proc[i].ci; }
        have++;
    }
    *n = have; return OK;
}
#define PROCS(fn, want, v1) API ret_t fn(D d, u32 *n, void *o) { G(d); NN(n); return procs(d, want, n, o, v1); }
PROCS(nvmlDeviceGetComputeRunningProcesses, 0, 1)
PROCS(nvmlDeviceGetComputeRunningProcesses_v2, 0, 0)
PROCS(nvmlDeviceGetComputeRunningProcesses_v3, 0, 0)
PROCS(nvmlDeviceGetGraphicsRunningProcesses, 1, 1)
PROCS(nvmlDeviceGetGraphicsRunningProcesses_v2, 1, 0)
PROCS(nvmlDeviceGetGraphicsRunningProcesses_v3, 1, 0)
PROCS(nvmlDeviceGetMPSComputeRunningProcesses_v3, 2, 0)
typedef struct { u32 pid; u64 ts; u32 sm, mem, enc, dec; } pu_t;
API ret_t nvmlDeviceGetProcessUtilization(D d, pu_t *o, u32 *n, u64 last) {
    G(d); (void)last;
    if (!d->nproc) return NOTFOUND;
    if (!o || *n < d->nproc) { *n = d->nproc; return SMALL; }
    struct timespec t; clock_gettime(CLOCK_REALTIME, &t);
    for (u32 i = 0; i < d->nproc; i++) o[i] = (pu_t){d->proc[i].pid, (u64)t.tv_sec * 1000000 + t.tv_nsec / 1000, d->proc[i].sm, d->proc[i].mem, 0, 0};
    *n = d->nproc; return OK;
}
typedef struct { u32 id, scope; int64_t ts, lat; u32 type; ret_t ret; union { double d; u32 u; u64 ull; } v; } fv_t;
API ret_t nvmlDeviceGetFieldValues(D d, int n, fv_t *f) {
    G(d);
    for (int i = 0; i < n; i++) {
        f[i].ts = (int64_t)((now()) * 1e6); f[i].lat = 1; f[i].ret = OK; f[i].type = 1; f[i].v.ull = 0;
        switch (f[i].id) {
            case 1: f[i].v.u = (u32)(d->ecc_mode > 0); break;
            case 82: f[i].v.u = (u32)d->mem_temp; break;
            case 83: f[i].type = 3; f[i].v.ull = (u64)((now() - t0) * d->power); break;
            case 91: f[i].v.u = (u32)d->nvlinks; break;
            case 94: f[i].v.u = (u32)d->replay; break;
            case 142: f[i].v.u = (u32)d->rm_cor; break;
            case 143: f[i].v.u = (u32)d->rm_unc; break;
            case 144: f[i].v.u = (u32)d->rm_pending; break;
            case 145: f[i].v.u = (u32)d->rm_failed; break;
            case 193: case 194: case 195: case 196: if (d->cc < 89) { f[i].ret = NOTSUP; break; }
                f[i].type = 5; f[i].v.ull = 0; f[i].v.u = (u32)(int)(f[i].id == 193 ? d->tl_shut : f[i].id == 194 ? d->tl_slow : 0); break;
            case 230: f[i].v.u = (u32)d->recovery; break;
            case 185: case 186: f[i].v.u = (u32)d->power; break;
            default: f[i].ret = NOTSUP;
        }
    }
    return OK;
}
/* events: each GPU can send one Xid */
typedef struct { D dev; u64 type, data; u32 gi, ci; } ev_t;
API ret_t nvmlEventSetCreate(void **s) { GS(); *s = calloc(1, 8); return OK; }
API ret_t nvmlEventSetFree(void *s) { GS(); free(s); return OK; }
API ret_t nvmlDeviceGetSupportedEventTypes(D d, u64 *t) { G(d); *t = 1 | 2 | 4 | 8 | 16; return OK; }
API ret_t nvmlDeviceRegisterEvents(D d, u64 t, void *s) { G(d); (void)t; (void)s; return OK; }
API ret_t nvmlEventSetWait_v2(void *s, ev_t *e, u32 ms) {
    GS(); (void)s; double end = now() + ms / 1000.0;
    for (;;) {
        double next = end, t = now();
        for (u32 i = 0; i < ndev; i++) if (devs[i].xid && !devs[i].xid_sent) {
            double due = t0 + devs[i].xid_after;
            if (t >= due) { devs[i].xid_sent = 1; *e = (ev_t){&devs[i], 8, (u64)devs[i].xid, 0xFFFFFFFFu, 0xFFFFFFFFu}; return OK; }
            if (due < next) next = due;
        }
        if (t >= end) return TIMEOUT;
        if (reload_on && next > t + 0.02) next = t + 0.02;   /* the scenario may change meanwhile */
        usleep((useconds_t)((next - t) * 1e6) + 1);
    }
}
API ret_t nvmlEventSetWait(void *s, ev_t *e, u32 ms) { return nvmlEventSetWait_v2(s, e, ms); }
/* GPM: SM, tensor and DRAM activity (Hopper and newer in reality) */
typedef struct { u32 version, ok; } gpms_t;
typedef struct { u32 id; ret_t ret; double v; const char *info[3]; } gpmm_t;
typedef struct { u32 version, n; void *a, *b; gpmm_t m[]; } gpmg_t;
API ret_t nvmlGpmQueryDeviceSupport(D d, gpms_t *s) { G(d); s->ok = d->cc >= 90; return OK; }
API ret_t nvmlGpmSampleAlloc(void **s) { GS(); *s = calloc(1, 16); return OK; }
API ret_t nvmlGpmSampleFree(void *s) { GS(); free(s); return OK; }
API ret_t nvmlGpmSampleGet(D d, void *s) { G(d); if (d->cc < 90) return NOTSUP; *(D *)s = d; return OK; }
API ret_t nvmlGpmMetricsGet(gpmg_t *g) {
    GS(); D d = *(D *)g->b;
    for (u32 i = 0; i < g->n; i++) {
        g->m[i].ret = OK;
        switch (g->m[i].id) { case 1: g->m[i].v = d->util; break; case 2: g->m[i].v = d->sm_active; break;
            case 3: g->m[i].v = d->sm_active / 2.0; break; case 5: g->m[i].v = d->tensor_active; break;
            case 10: g->m[i].v = d->dram_active; break; case 20: g->m[i].v = d->tx / 1024.0; break;
            case 21: g->m[i].v = d->rx / 1024.0; break; default: g->m[i].v = 0; g->m[i].ret = NOTSUP; }
    }
    return OK;
}

/* The costs by name, and what is known of networks. */
#include "bench/model.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *text;
    bool cpu;
} costs[] = {
#define COST_(name, cpu, text) {#name, text, cpu},
    MODEL_COSTS(COST_)
#undef COST_
};

double *model_cost(struct model_costs *c, uint32_t which)
{
    double *const all[] = {
#define COST_(name, cpu, text) &c->name,
        MODEL_COSTS(COST_)
#undef COST_
    };
    CHECK(which < MODEL_COST_COUNT);
    return all[which];
}

const char *model_cost_name(uint32_t which)
{
    CHECK(which < MODEL_COST_COUNT);
    return costs[which].name;
}

const char *model_cost_text(uint32_t which)
{
    CHECK(which < MODEL_COST_COUNT);
    return costs[which].text;
}

bool model_cost_is_cpu(uint32_t which)
{
    CHECK(which < MODEL_COST_COUNT);
    return costs[which].cpu;
}

int model_cost_find(const char *name, struct err *e)
{
    for (uint32_t i = 0; i < MODEL_COST_COUNT; i++)
        if (strcmp(name, costs[i].name) == 0)
            return (int)i;
    char list[ERR_TEXT_BYTES] = "";
    for (uint32_t i = 0; i < MODEL_COST_COUNT; i++) {
        size_t at = strlen(list);
        snprintf(list + at, sizeof(list) - at, "%s%s", i ? ", " : "", costs[i].name);
    }
    return err_set(e, ERR_NOTFOUND, "no cost '%s'; there are %s", name, list);
}

/* Where each number comes from is in docs/model.md. */
static const struct model_preset presets[] = {
    {.name = "fdr",
     .text = "the TRAM paper's cluster: ConnectX-3 FDR, 1.31 us a write, 50 Gb/s",
     .costs =
         {.write_ns = 1310, .ack_ns = 655, .byte_ps = 160, .post_ns = 100, .raise_ns = 250000}},
    {.name = "cx4",
     .text = "the RamCast paper's cluster: ConnectX-4, 100 Gb/s",
     .costs = {.write_ns = 1000, .ack_ns = 500, .byte_ps = 80, .post_ns = 100, .raise_ns = 250000}},
    {.name = "shm",
     .text = "this machine: all hosts on one core, all clients on another",
     .layout = MODEL_SHARED,
     .costs = {.write_ns = 70, .byte_ps = 0}},
};

const struct model_preset *model_preset_at(uint32_t i)
{
    return i < sizeof(presets) / sizeof(presets[0]) ? &presets[i] : NULL;
}

const struct model_preset *model_preset_named(const char *name)
{
    const struct model_preset *p;
    for (uint32_t i = 0; (p = model_preset_at(i)) != NULL; i++)
        if (strcmp(p->name, name) == 0)
            return p;
    return NULL;
}

/* As measured for MODEL_SPREAD on a 2-core virtual machine (AMD EPYC), gcc 12 -O2; see docs/model.md. */
const struct model_costs model_costs_stored = {
    .store_ns = 10.5,
    .copy_ps = 21,
    .clock_ns = 20,
    .poll_ns = 33,
    .watch_ns = 27,
    .scan_ns = 1.1,
    .entry_ns = 43,
    .follow_ns = 40,
    .stamp_ns = 64,
    .follow_stamp_ns = 62,
    .look_ns = 7,
    .cast_ns = 17,
    .reply_ns = 20,
};

#include "api/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t api_deliver(struct api_machine *m, const struct delivery *d, void *reply,
                     uint32_t reply_max)
{
    struct tram_delivery out = {
        .group = d->group,
        .client = d->client,
        .life = d->life,
        .seq = d->seq,
        .number = d->number,
        .dst = d->dst.group,
        .dst_count = d->dst.count,
        .body = d->body,
        .bytes = d->bytes,
    };
    if (m->calls.deliver == NULL)
        return 0;
    uint32_t bytes = m->calls.deliver(m->ctx, &out, reply, reply_max);
    if (bytes > reply_max && m->failure == NULL) {
        snprintf(m->failure_text, sizeof(m->failure_text),
                 "the state machine's reply to message %llu has %u bytes, and reply_max of the "
                 "cluster file is %u",
                 (unsigned long long)d->number, bytes, reply_max);
        m->failure = m->failure_text;
    }
    return bytes;
}

uint64_t api_save_open(void *machine)
{
    struct api_machine *m = machine;
    m->saved = NULL;
    m->saved_bytes = 0;
    if (m->calls.save && m->calls.save(m->ctx, m->group, &m->saved, &m->saved_bytes) != 0)
        m->failure = "the state machine could not save its state";
    return m->saved_bytes;
}

void api_save_read(void *machine, uint64_t offset, void *out, uint32_t bytes)
{
    const struct api_machine *m = machine;
    memcpy(out, (const unsigned char *)m->saved + offset, bytes);
}

void api_save_close(void *machine)
{
    struct api_machine *m = machine;
    free(m->saved);
    m->saved = NULL;
}

void api_load_open(void *machine, uint64_t bytes)
{
    struct api_machine *m = machine;
    free(m->loading);
    m->load_bytes = bytes;
    m->load_at = 0;
    m->loading = malloc(bytes + 1);
    if (m->loading == NULL)
        m->failure = "no memory for the state of a group";
}

void api_load_write(void *machine, const void *data, uint32_t bytes)
{
    struct api_machine *m = machine;
    if (m->loading && m->load_at + bytes <= m->load_bytes)
        memcpy(m->loading + m->load_at, data, bytes);
    m->load_at += bytes;
}

void api_load_close(void *machine)
{
    struct api_machine *m = machine;
    if (m->calls.load && m->loading &&
        m->calls.load(m->ctx, m->group, m->loading, m->load_bytes) != 0)
        m->failure = "the state machine could not load its state";
    free(m->loading);
    m->loading = NULL;
}

void api_machine_fini(struct api_machine *m)
{
    free(m->saved);
    free(m->loading);
    m->saved = NULL;
    m->loading = NULL;
}

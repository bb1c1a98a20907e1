/* Reports as bytes, in words of 8:
 *
 *      | vid | life | cells: | has_state 1, large 1, learnt << 8, senders << 16 | held of each sender ... | ... |
 *
 * and what a disk has:
 *
 *      | 0 | life | vid | made | reach of each cell ... | */
#include "group/keeper_impl.h"

#include <string.h>

enum {
    HEAD_WORDS = 2,
    FOUND_WORDS = 4,
    HAS_STATE = 1,
    LARGE = 2,
    LEARNT_SHIFT = 8,
    SENDERS_SHIFT = 16
};

uint32_t report_bytes_max(uint32_t hosts, uint32_t cells)
{
    return 8 * (FOUND_WORDS + cells * (1 + hosts));
}

static unsigned char *word_put(unsigned char *at, uint64_t word)
{
    memcpy(at, &word, 8);
    return at + 8;
}

uint32_t report_encode(const struct report *r, uint32_t cells, unsigned char *out)
{
    unsigned char *at = word_put(word_put(out, r->vid), r->life);
    for (uint32_t c = 0; c < cells; c++) {
        const struct cell_report *cell = &r->cell[c];
        CHECK(cell->senders <= GROUP_HOSTS_MAX && cell->learnt <= GROUP_HOSTS_MAX);
        at = word_put(at, (cell->has_state ? HAS_STATE : 0) | (cell->large ? LARGE : 0) |
                              (uint64_t)cell->learnt << LEARNT_SHIFT |
                              (uint64_t)cell->senders << SENDERS_SHIFT);
        for (uint32_t i = 0; i < cell->senders; i++)
            at = word_put(at, cell->held[i]);
    }
    return (uint32_t)(at - out);
}

bool report_decode(const unsigned char *in, uint32_t bytes, uint32_t hosts, uint32_t cells,
                   struct report *out, struct cell_report *cell)
{
    const uint32_t words = bytes / 8;
    uint32_t at = HEAD_WORDS;
    if (bytes % 8 != 0 || words < HEAD_WORDS)
        return false;
    memcpy(&out->vid, in, 8);
    memcpy(&out->life, in + 8, 8);
    out->cell = cell;
    for (uint32_t c = 0; c < cells; c++) {
        uint64_t head;
        if (at == words)
            return false;
        memcpy(&head, in + 8 * (size_t)at++, 8);
        uint64_t senders = head >> SENDERS_SHIFT, learnt = head >> LEARNT_SHIFT & 0xff;
        if ((head & 0xff) > (HAS_STATE | LARGE) || learnt > hosts || senders > hosts ||
            senders > words - at)
            return false;
        cell[c].has_state = head & HAS_STATE;
        cell[c].large = head & LARGE;
        cell[c].learnt = (uint32_t)learnt;
        cell[c].senders = (uint32_t)senders;
        memcpy(cell[c].held, in + 8 * (size_t)at, 8 * senders);
        at += (uint32_t)senders;
    }
    return at == words;
}

uint32_t found_encode(const struct found_report *f, uint32_t cells, unsigned char *out)
{
    unsigned char *at = word_put(word_put(out, 0), f->life);
    at = word_put(word_put(at, f->vid), f->made);
    for (uint32_t c = 0; c < cells; c++)
        at = word_put(at, f->reach[c]);
    return (uint32_t)(at - out);
}

bool found_decode(const unsigned char *in, uint32_t bytes, uint32_t cells, struct found_report *out,
                  uint64_t *reach)
{
    uint64_t head[FOUND_WORDS];
    if (bytes != 8 * (FOUND_WORDS + cells))
        return false;
    memcpy(head, in, sizeof(head));
    if (head[0] != 0 || head[1] == 0)
        return false;
    memcpy(reach, in + sizeof(head), 8 * (size_t)cells);
    *out = (struct found_report){.life = head[1], .vid = head[2], .made = head[3], .reach = reach};
    return true;
}

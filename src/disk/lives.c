/* The host file: whose directory it is, and the lives. A slot is written with the batch that is due; the other one, with the
 * same lives, with the batch after it. So the damage of one slot loses nothing, once it is so far. */
#include "base/hash.h"
#include "base/minmax.h"
#include "disk/disk_impl.h"

#include <string.h>

/* Another one for every time that the directory is made: what stood there before does not count. */
void lives_journal_id(const struct disk_shape *shape, uint32_t life, unsigned char *id)
{
    uint64_t a = hash_bytes(life, shape->cluster, sizeof shape->cluster);
    a = hash_bytes(a, shape->host, strnlen(shape->host, sizeof shape->host));
    uint64_t b = hash_mix(a, life);

    memcpy(id, &a, sizeof a);
    memcpy(id + sizeof a, &b, sizeof b);
}

/* The one that does not count now. */
void lives_step(struct disk *d, uint64_t batch, struct block_step *step)
{
    uint32_t which = (uint32_t)(++d->turn % SLOTS);
    struct slot *s = d->slots[which];

    memset(s, 0, sizeof *s);
    s->magic = SLOT_MAGIC;
    s->version = FORMAT_VERSION;
    s->flags = d->slot_flags;
    s->turn = d->turn;
    s->shape = d->shape;
    s->segment_bytes = d->segment_bytes;
    s->batch = batch;
    s->next_life = d->life + 1;
    memcpy(s->journal, d->journal, sizeof s->journal);
    memcpy(s->hosts, d->host_lives, d->shape.hosts * sizeof *s->hosts);
    memcpy(s->places, d->place_lives, d->shape.clients * sizeof *s->places);
    for (uint32_t g = 0; g < d->shape.groups; g++)
        s->initial[g / 8] |= (unsigned char)(d->groups[g].initial << g % 8);
    scan_seal_slot(s);
    d->slots_behind--;
    *step = (struct block_step){.act = BLOCK_WRITE,
                                .name = HOST_NAME,
                                .data = s,
                                .at = (uint64_t)which * SLOT_BYTES,
                                .bytes = SLOT_BYTES};
}

void lives_take(struct disk *d, const struct slot *s)
{
    d->turn = s->turn;
    d->slot_batch = s->batch;
    d->slot_flags = s->flags;
    d->life = s->next_life;
    for (uint32_t g = 0; g < d->shape.groups; g++)
        d->groups[g].initial = s->initial[g / 8] >> g % 8 & 1;
    memcpy(d->journal, s->journal, sizeof d->journal);
    memcpy(d->host_lives, s->hosts, d->shape.hosts * sizeof *s->hosts);
    if (!PLANTED(disk_places_forgotten))
        memcpy(d->place_lives, s->places, d->shape.clients * sizeof *s->places);
}

/* ---- in tables ---- */

uint32_t lives_bytes(const struct disk *d)
{
    return d->shape.hosts * (uint32_t)sizeof *d->host_lives +
           d->shape.clients * (uint32_t)sizeof *d->place_lives;
}

void lives_put(const struct disk *d, unsigned char *bytes)
{
    size_t hosts = d->shape.hosts * sizeof *d->host_lives;

    memcpy(bytes, d->host_lives, hosts);
    memcpy(bytes + hosts, d->place_lives, d->shape.clients * sizeof *d->place_lives);
}

/* The newer slot may be damaged, and the older one not know of them. */
void lives_raise(struct disk *d, const unsigned char *bytes)
{
    uint32_t life;
    uint16_t place;

    for (uint32_t i = 0; i < d->shape.hosts; i++, bytes += sizeof life) {
        memcpy(&life, bytes, sizeof life);
        d->host_lives[i] = (uint32_t)max_u64(d->host_lives[i], life);
    }
    for (uint32_t i = 0; i < d->shape.clients && !PLANTED(disk_places_forgotten);
         i++, bytes += sizeof place) {
        memcpy(&place, bytes, sizeof place);
        d->place_lives[i] = (uint16_t)max_u64(d->place_lives[i], place);
    }
}

/* ---- what others see ---- */

uint32_t disk_life(const struct disk *d)
{
    return d->life;
}

uint32_t disk_host_life(const struct disk *d, uint32_t host)
{
    CHECK(host < d->shape.hosts);
    return d->host_lives[host];
}

uint32_t disk_place_life(const struct disk *d, uint32_t place)
{
    CHECK(place < d->shape.clients);
    return d->place_lives[place];
}

/* The slot goes along with the next batch that begins, which is the open one or one before it. */
static uint64_t noted(struct disk *d)
{
    d->slots_behind = SLOTS;
    d->must_write = true;
    return PLANTED(disk_life_early) ? d->done : append_open_batch(d)->number;
}

uint64_t disk_host_note(struct disk *d, uint32_t host, uint32_t life)
{
    CHECK(host < d->shape.hosts && life > d->host_lives[host]);
    d->host_lives[host] = life;
    return noted(d);
}

uint64_t disk_place_note(struct disk *d, uint32_t place, uint32_t life)
{
    CHECK(place < d->shape.clients && life > d->place_lives[place] && life <= UINT16_MAX);
    d->place_lives[place] = (uint16_t)life;
    return noted(d);
}

/* A cell that goes on from the disk of its members (group/restart.h), and what has to be on a disk so that it can.
 *
 * Who comes without a state and is sent one has a log with a gap: of what it was sent before there are no versions. So it writes the state into its log first, in
 * pieces (VERSION_STATE), and counts for nothing before that is done: nobody delivers anything in the view meanwhile, so the state does not
 * change. The state stands in the log as if it had come with the last version before the cut of the view.
 *
 * Who goes on from its disk reads its log: the last whole state in it, or a new one, and the versions behind that up to the cut; then it cuts the log there, and
 * is a member that has the state. Reading waits for the disk, so the others are told before that this host is busy. */
#include "group/impl.h"
#include "group/versions_impl.h"

#include <stdio.h>
#include <stdlib.h>

enum { PIECE_BYTES = 4096, VIEWS_RECORD = 64, VIEWS_BUFFER = 16 << 10 };

struct restoring {
    bool reads;   /* this host has the cell on its disk, and has not read it yet */
    bool is_read; /* it has, and has not cut its log yet */
    bool writes;  /* a state was sent to it, and is not in the log yet */
    uint64_t cut; /* where the view begins, as a version of the log */
    uint64_t born;
    uint64_t read_time;

    void *save;       /* what is written, */
    uint64_t bytes;   /* as the machine says how large it is */
    uint64_t version; /* behind which it is, */
    uint64_t time;    /* and that one's */
    uint64_t piece;
    bool wrote_last; /* piece of it */
    unsigned char room[PIECE_BYTES];
    uint32_t room_bytes;

    /* A log that is read. */
    uint64_t states,
        whole; /* states that begin; the last that is whole, as the number of its begin; 0: none */
    uint64_t whole_version; /* behind which it is */

    /* So that the log need not grow for ever. */
    bool checks;          /* a state is written while messages go on */
    uint32_t segment;     /* the last one that is whole begins there or later; 0: there is none */
    uint64_t place;       /* in the log, behind it */
    uint32_t from;        /* likewise, of the one that is written */
    uint64_t state_bytes; /* that it takes */
    uint32_t looked;      /* segment in which that was looked at last */
    char why[ERR_TEXT_BYTES];
};

struct versions_log_options member_views_log_options(void)
{
    return (struct versions_log_options){.payload_max = VIEWS_RECORD, .buffer_bytes = VIEWS_BUFFER};
}

static uint32_t log_of(const struct cell *c)
{
    return versions_of_cell(c->number);
}

/* ---- a state that was sent goes into the log ---- */

void restore_came(struct cell *c)
{
    c->restoring->writes = c->of->state != NULL;
}

static void stop_writing(struct cell *c)
{
    struct restoring *r = c->restoring;
    if (r->save)
        c->of->state->save_close(cell_state_ctx(c->of, c->number), r->save);
    r->save = NULL;
    r->piece = 0;
    r->checks = false;
}

bool restore_saves(const struct cell *c)
{
    return c->restoring && c->restoring->save;
}

/* What the state is behind. */
static uint64_t state_version(const struct cell *c)
{
    bool all = c->opt.mode == CELL_DURABLE; /* and nothing was delivered since its cut */
    return (all ? c->restoring->cut : stamp(c->of->view->vid, c->skip_to)) - 1;
}

static bool can_save(const struct cell *c)
{
    return state_save_ready(c->of->state, cell_state_ctx(c->of, c->number)) && !is_feeding(c);
}

static bool open_save(struct cell *c, uint64_t version)
{
    struct restoring *r = c->restoring;
    r->bytes = STATE_UNKNOWN;
    r->version = version;
    r->time = kept_time(c);
    r->wrote_last = false;
    r->save = c->of->state->save_open(cell_state_ctx(c->of, c->number), &r->bytes);
    if (r->save == NULL)
        member_stop(c->of, "the machine cannot save its state");
    return r->save != NULL;
}

static bool begin_writing(struct cell *c)
{
    struct versions *v = c->of->opt.versions;
    uint64_t version = state_version(c);
    if (!can_save(c))
        return false;
    if (versions_end(v, log_of(c)) > version + 1 &&
        !versions_cut(v, log_of(c), version + 1, kept_time(c)))
        return false;
    return open_save(c, version);
}

enum { PIECES_A_ROUND = 4 };

/* The next piece; false: there is none, an empty one has ended it, or no room. */
static bool write_piece(struct cell *c)
{
    struct restoring *r = c->restoring;
    struct versions *v = c->of->opt.versions;
    if (!versions_has_room(v, log_of(c), r->room_bytes))
        return false;
    int bytes =
        c->of->state->save_next(cell_state_ctx(c->of, c->number), r->save, r->room, r->room_bytes);
    if (bytes < 0) {
        member_stop(c->of, "the machine cannot save its state");
        return false;
    }
    const struct version piece = {.bytes = (uint32_t)bytes,
                                  .type = VERSION_STATE,
                                  .version = r->version,
                                  .time = r->time,
                                  .client = bytes == 0,
                                  .life = r->bytes,
                                  .seq = r->piece++};
    CHECK(versions_append(v, log_of(c), &piece, r->room));
    r->wrote_last = bytes == 0;
    if (bytes == 0) {
        versions_reach(v, log_of(c), r->version + 1);
        r->writes = false;
    }
    return bytes > 0;
}

bool restore_written(struct cell *c)
{
    struct restoring *r = c->restoring;
    if (!r->writes || versions_failure(c->of->opt.versions))
        return true;
    if (PLANTED(group_joiner_unwritten))
        r->writes = false;
    if (r->save == NULL && r->writes && !begin_writing(c))
        return false;
    for (int i = 0; i < PIECES_A_ROUND && r->writes && write_piece(c); i++)
        ;
    if (!r->writes)
        stop_writing(c);
    return !r->writes;
}

/* ---- a log that is not to grow for ever ---- */

/* A member writes the state into its log while messages go on. Pieces of it stand among versions that are behind it. When all of them are on the disk what
 * is before the first one is needed by nobody who goes on from there, and goes if it is more than is to be retained. */

/* Segments before this one are not to be retained. */
static uint32_t retained_from(const struct cell *c)
{
    const struct versions *v = c->of->opt.versions;
    uint32_t from = versions_segment(v, log_of(c));
    while (from > versions_oldest(v, log_of(c)) &&
           versions_bytes(v, log_of(c), from) < c->opt.retain)
        from--;
    return from;
}

/* As large as the state at least, and half of what stays: so that it is not written more often than is worth it. */
static bool is_worth_it(const struct cell *c, uint32_t from)
{
    const struct versions *v = c->of->opt.versions;
    uint64_t gain = versions_bytes(v, log_of(c), 0) - versions_bytes(v, log_of(c), from);
    return gain > 0 && gain >= max_u64(c->opt.retain / 2, c->restoring->state_bytes);
}

static void begin_check(struct cell *c)
{
    struct restoring *r = c->restoring;
    uint64_t below = max_u64(c->number_at, c->skip_to);
    if (below == 0 || !can_save(c) || !open_save(c, stamp(c->of->view->vid, below) - 1))
        return;
    r->checks = true;
    /* A durable cell has more in its log than it has delivered. */
    r->from = versions_segment_of(c->of->opt.versions, log_of(c), r->version + 1);
    if (PLANTED(group_drop_early))
        versions_drop(c->of->opt.versions, log_of(c), r->from);
}

/* Messages have the first call on the room. */
static int write_check(struct cell *c)
{
    struct restoring *r = c->restoring;
    struct versions *v = c->of->opt.versions;
    uint64_t before = r->piece;
    for (int i = 0; i < PIECES_A_ROUND; i++)
        if (!versions_has_bytes(v, log_of(c),
                                kept_bytes(&c->opt) + sizeof(struct version) + PIECE_BYTES) ||
            !write_piece(c))
            break;
    if (r->save && r->piece > before && r->wrote_last) {
        r->segment = r->from;
        r->place = versions_place(v, log_of(c));
        r->state_bytes = r->piece * (PIECE_BYTES + sizeof(struct version));
        stop_writing(c);
        c->of->count.checkpoints++;
    }
    return r->piece != before;
}

/* Once the last state is on the disk. */
static void drop_old(struct cell *c, uint32_t from)
{
    const struct restoring *r = c->restoring;
    struct versions *v = c->of->opt.versions;
    bool needs = c->of->opt.machine->state != NULL;
    if (needs && r->segment == 0)
        return;
    /* What the last segment begins with may not be on the disk yet, and one of them has to have something. */
    uint32_t last = versions_segment(v, log_of(c)), sure = needs ? r->segment : last - (last > 1);
    if (versions_done(v, log_of(c)) >= r->place)
        versions_drop(v, log_of(c), (uint32_t)min_u64(from, sure));
}

int restore_retain(struct cell *c)
{
    struct restoring *r = c->restoring;
    struct versions *v = c->of->opt.versions;
    if (c->opt.retain == 0 || versions_failure(v) || r->writes)
        return 0;
    if (r->checks)
        return write_check(c);
    uint32_t segment = versions_segment(v, log_of(c));
    bool behind = r->place > versions_done(v, log_of(c));
    if (segment == r->looked || behind)
        return 0;
    uint32_t from = retained_from(c);
    drop_old(c, from);
    bool needs = c->of->opt.machine->state != NULL &&
                 from > max_u64(r->segment, versions_oldest(v, log_of(c)));
    if (needs && is_worth_it(c, from))
        begin_check(c);
    else
        r->looked = segment;
    return 0;
}

/* ---- reading ---- */

/* What is from there on others went on without; and what was before, an earlier cell of that number had. */
static bool is_of_this(const struct restoring *r, const struct version *v)
{
    return v->version < r->cut && v->version >= stamp(r->born, 0);
}

static int find_state(void *ctx, const struct version *v, const void *payload)
{
    struct restoring *r = ((struct cell *)ctx)->restoring;
    (void)payload;
    if (!is_of_this(r, v))
        return 0;
    if (v->type == VERSION_MSG || v->type == VERSION_STATE)
        r->read_time = max_u64(r->read_time, v->time);
    if (v->type != VERSION_STATE)
        return 0;
    r->states += v->seq == 0;
    if (v->client) {
        r->whole = r->states;
        r->whole_version = v->version;
    }
    return 0;
}

static int take_piece(void *ctx, const struct version *v, const void *payload)
{
    struct cell *c = ctx;
    struct restoring *r = c->restoring;
    const struct state_ops *ops = c->of->state;
    int rc = 0;
    if (!is_of_this(r, v) || v->type != VERSION_STATE)
        return 0;
    r->states += v->seq == 0;
    if (r->states != r->whole)
        return 0;
    if (v->seq == 0)
        rc = ops->load_open(cell_state_ctx(c->of, c->number), v->life);
    if (rc == 0 && v->bytes)
        rc = ops->load_next(cell_state_ctx(c->of, c->number), payload, v->bytes);
    if (rc >= 0 && v->client)
        rc = ops->load_close(cell_state_ctx(c->of, c->number), true);
    return rc < 0 ? rc : 0;
}

static int take_message(void *ctx, const struct version *v, const void *payload)
{
    struct cell *c = ctx;
    const struct restoring *r = c->restoring;
    struct member *m = c->of;
    if (!is_of_this(r, v) || v->type != VERSION_MSG || (r->whole && v->version <= r->whole_version))
        return 0;
    if (!relays_restore(c, v) || m->opt.machine->state == NULL)
        return 0;
    const struct member_item item = {.data = payload,
                                     .bytes = v->bytes,
                                     .sender = v->sender,
                                     .number = stamp_count(v->version),
                                     .client = v->client};
    m->opt.machine->deliver(m->opt.ctx, c->number, stamp_vid(v->version), &item, 1);
    m->count.restored++;
    return 0;
}

static int read_log(struct cell *c, versions_fn *fn)
{
    struct restoring *r = c->restoring;
    const struct versions *v = c->of->opt.versions;
    struct err e = {""};
    r->states = 0;
    int rc = versions_read(v->block, &v->owner, log_of(c), 0, 0, fn, c, &e);
    if (rc) {
        snprintf(r->why, sizeof(r->why), "%s", e.text[0] ? e.text : "the machine cannot load it");
        member_stop(c->of, r->why);
    }
    return rc;
}

static bool read_all(struct cell *c)
{
    struct restoring *r = c->restoring;
    const struct member_machine *machine = c->of->opt.machine;
    r->read_time = r->whole = 0;
    if (read_log(c, find_state) != 0)
        return false;
    if (r->whole == 0 && c->of->state) {
        if (machine->born && machine->state)
            machine->born(c->of->opt.ctx, c->number);
        relays_born(c);
    }
    if (r->whole && c->of->state && read_log(c, take_piece) != 0)
        return false;
    if (c->of->state && read_log(c, take_message) != 0)
        return false;
    relays_restored(c);
    r->is_read = true;
    return true;
}

static bool is_idle(const struct cell *c)
{
    const struct versions *v = c->of->opt.versions;
    return versions_place(v, log_of(c)) == versions_done(v, log_of(c));
}

bool restore_reads(const struct cell *c)
{
    return c->restoring && c->restoring->reads;
}

int restore_read(struct cell *c)
{
    struct restoring *r = c->restoring;
    struct member *m = c->of;
    if (versions_failure(m->opt.versions) || (!r->is_read && !is_idle(c)))
        return 0;
    if (!r->is_read && !member_has_told_busy(m))
        return 1;
    if (!r->is_read)
        return read_all(c);
    member_set_busy(m, false); /* in a round of its own, as it was set */
    if (!versions_cut(m->opt.versions, log_of(c), r->cut, r->read_time))
        return 0;
    versions_set_sure(m->opt.versions, log_of(c), r->cut);
    r->reads = r->is_read = false;
    kept_restored(c, r->read_time);
    c->has_state = true;
    cell_set(c, CELL_STATE, stamp(m->view->vid, HAS_STATE));
    return 1;
}

/* ---- from view to view ---- */

void restore_begin(struct cell *c, const struct view *now, bool had)
{
    struct restoring *r = c->restoring;
    const struct view_cell *vc = &now->cell[c->number];
    bool writes = r->writes;
    stop_writing(c);
    *r = (struct restoring){.cut = vc->cut,
                            .born = vc->born,
                            .room_bytes = r->room_bytes,
                            .segment = r->segment,
                            .place = r->place,
                            .state_bytes = r->state_bytes};
    r->writes = writes && had;
    r->reads = c->in && !had && in_set(vc->stateful, c->of->opt.me) && vc->born != now->vid;
}

void restore_reset(struct cell *c)
{
    if (c->restoring == NULL)
        return;
    stop_writing(c);
    c->restoring->reads = c->restoring->writes = c->restoring->is_read = false;
}

/* ---- what there is, for keepers ---- */

/* In which life it was new the disk has to have, before others count on what this host says. */
static bool is_made(const struct versions *v)
{
    return versions_failure(v) ||
           versions_done(v, VERSIONS_VIEWS) == versions_place(v, VERSIONS_VIEWS);
}

/* What is told of a log stays so: nothing of it is under way, and a loss of power takes nothing back. A cell that goes on from less than this host has would have
 * no use for its log any more. Of cells that it has the state of in its view nobody asks. */
static bool are_settled(struct member *m)
{
    bool all = true;
    for (uint32_t i = 0; i < m->opt.cells; i++) {
        const struct cell *c = &m->cell[i];
        if (c->keep && !(c->in && c->has_state))
            all &= versions_settle(m->opt.versions, log_of(c));
    }
    return all;
}

void restore_tell(struct member *m)
{
    m->untold = m->opt.versions && !(is_made(m->opt.versions) && are_settled(m));
    if (m->opt.versions == NULL || m->untold)
        return;
    for (uint32_t i = 0; i < m->opt.cells; i++)
        m->found_reach[i] =
            m->cell[i].keep ? versions_reached(m->opt.versions, versions_of_cell(i)) : 0;
    keeper_found(m->keeper, &(struct found_report){.life = m->life,
                                                   .vid = m->view->vid,
                                                   .made = m->disk_made,
                                                   .reach = m->found_reach});
}

/* The log of views has in which life the disk was new. */
int restore_open(struct member *m, struct err *e)
{
    struct versions *v = m->opt.versions;
    if (v == NULL)
        return 0;
    if (v->log[VERSIONS_VIEWS].payload_max == 0)
        return err_set(e, ERR_INVALID, "group: the versions have no log of views");
    const struct versions_found *f = versions_found(v, VERSIONS_VIEWS);
    const struct version made = {.type = VERSION_GENERATION, .version = m->life};
    m->disk_made = f->reach ? f->reach - 1 : m->life;
    if (f->reach == 0 && !versions_append(v, VERSIONS_VIEWS, &made, NULL))
        return err_set(e, ERR_SYSTEM, "group: %s", versions_failure(v));
    return 0;
}

int restore_cell_open(struct cell *c, struct err *e)
{
    const struct versions *v = c->of->opt.versions;
    c->restoring = calloc(1, sizeof(*c->restoring));
    if (c->restoring == NULL)
        return err_set(e, ERR_NOMEM, "group: no memory for the log of cell %u", c->number);
    c->restoring->room_bytes = (uint32_t)min_u64(PIECE_BYTES, v->log[log_of(c)].payload_max);
    return 0;
}

void restore_stop(struct cell *c)
{
    if (c->restoring)
        stop_writing(c);
}

void restore_close(struct cell *c)
{
    free(c->restoring);
}

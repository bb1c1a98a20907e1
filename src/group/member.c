#include "group/decide.h"
#include "group/impl.h"

#include <stdlib.h>

/* ---- signs of life ---- */

/* Who has said that it is busy has longer, but not for ever. */
enum { BUSY_SUSPECTS = 100 };

static void look_whether_busy(struct member *m, uint32_t host, uint64_t now_ns)
{
    uint64_t busy = table_get(m->top, host, TOP_BUSY);
    if (busy != m->busy[host])
        m->busy_since_ns[host] = now_ns;
    m->busy[host] = busy;
    if (busy & 1 && now_ns - m->busy_since_ns[host] <= BUSY_SUSPECTS * m->opt.suspect_ns)
        m->busy_ns[host] = now_ns;
}

static void look_at(struct member *m, uint32_t host, uint64_t now_ns)
{
    table_next(m->top, host);
    look_whether_busy(m, host, now_ns);
    uint64_t beat = table_get(m->top, host, TOP_BEAT);
    if (beat != m->beat[host]) {
        m->beat[host] = beat;
        m->heard_ns[host] = now_ns;
    }
    if (m->mem->shared || table_reaches(m->top, host))
        m->reached_ns[host] = now_ns;
}

/* That it is busy no more may come before anything else that it does: it has as long as ever from then on. */
bool member_is_late(const struct member *m, uint32_t host, uint64_t last_ns, uint64_t now_ns)
{
    return now_ns - max_u64(last_ns, m->busy_ns[host]) > m->opt.suspect_ns;
}

static bool is_silent(const struct member *m, uint32_t host, uint64_t now_ns)
{
    uint64_t last = min_u64(m->heard_ns[host], m->reached_ns[host]);
    return mem_dead(m->mem, host) || member_is_late(m, host, last, now_ns);
}

/* What this thread did not see while it was away is nobody's silence. */
static void excuse(struct member *m, uint64_t now_ns)
{
    uint64_t away = now_ns - m->settled_ns;
    m->settled_ns = now_ns;
    for (uint32_t h = 0; away > m->opt.suspect_ns / 2 && h < m->opt.hosts; h++) {
        m->heard_ns[h] += away;
        m->reached_ns[h] += away;
        m->busy_ns[h] += away;
    }
}

static int watch(struct member *m, uint64_t now_ns)
{
    excuse(m, now_ns);
    if (now_ns < m->look_ns)
        return 0;
    m->look_ns = now_ns + m->opt.heartbeat_ns / 4;
    uint64_t claims = is_in_view(m) ? m->torn & m->view->members : 0;
    for (uint32_t h = 0; h < m->opt.hosts; h++) {
        if (h == m->opt.me)
            continue;
        look_at(m, h, now_ns);
        if (is_in_view(m) && in_set(m->view->members, h) && is_silent(m, h, now_ns))
            claims |= set_of(h);
    }
    if (claims == table_get(m->top, m->opt.me, TOP_CLAIMS))
        return 0;
    table_set(m->top, TOP_CLAIMS, claims);
    m->ring = true;
    return 1;
}

/* ---- rounds ---- */

/* Rows of cells go out again where a connection was lost; to all of them once in a while, in case that was not noticed. */
enum { BEATS_A_ROW = 16 };

static void push_rows(struct member *m)
{
    bool whole = ++m->beats % BEATS_A_ROW == 0;
    for (uint32_t i = 0; i < m->opt.cells; i++) {
        struct cell *c = &m->cell[i];
        if (!(c->in || c->learns) || c->row == NULL)
            continue;
        if (whole) {
            cell_push(c, true);
            continue;
        }
        table_push(c->row);
        if (c->taken)
            table_push(c->taken);
    }
}

/* Who goes to sleep and was woken by another's heartbeat has its own with that: idle hosts wake once for both. */
static void beat(struct member *m, uint64_t now_ns, bool dozes)
{
    uint64_t early_ns = dozes && m->mem->remote ? m->opt.heartbeat_ns / BEAT_EARLY : 0;
    if (now_ns + early_ns < m->beat_ns)
        return;
    m->beat_ns = now_ns + m->opt.heartbeat_ns;
    table_set(m->top, TOP_BEAT, table_get(m->top, m->opt.me, TOP_BEAT) + 1);
    if (m->mem->shared)
        return;
    table_push_row(m->top);
    push_rows(m);
}

static void ring_all(struct member *m)
{
    for (uint32_t h = 0; h < m->opt.hosts; h++)
        if (h != m->opt.me)
            mem_bell_later(m->mem, h);
    m->ring = false;
}

/* What is not about messages is looked at every so often, and not in every round: it would cost as much as they do, and its time to
 * those who wait for an answer. Of a heartbeat of 15 ms this is 15 us. */
enum { LOOKS_A_HEARTBEAT = 1024 };

static bool looks_around(const struct unit *u, uint64_t *last_ns, uint64_t now_ns)
{
    const struct member *m = u->of;
    if (m->phase == MEMBER_OPEN && !u->dozes &&
        now_ns - *last_ns < m->opt.heartbeat_ns / LOOKS_A_HEARTBEAT)
        return false;
    *last_ns = now_ns;
    return true;
}

static int post_views(struct member *m, uint64_t now_ns, bool dozes)
{
    if (m->untold)
        restore_tell(m);
    int work = keeper_post(m->keeper, now_ns);
    m->ring |= m->top->dirty >> TOP_CLOSE & 1; /* a view was closed, in the last settle */
    work += transfer_post(m);
    asks_post(m);
    beat(m, now_ns, dozes);
    if (m->top->dirty)
        table_push(m->top);
    if (m->ring)
        ring_all(m);
    return work;
}

static int post(struct unit *u, uint64_t now_ns)
{
    struct member *m = u->of;
    int work = 0;
    if (m->broken)
        return 0;
    for (uint32_t c = 0; c < m->opt.cells; c++)
        work += cell_post(&m->cell[c]);
    relays_post(m);
    if (m->rdmc)
        work += rdmc_post(m, now_ns);
    return work + (looks_around(u, &m->look_post_ns, now_ns) ? post_views(m, now_ns, u->dozes) : 0);
}

/* While there is work elsewhere, cells with none are looked at now and then only. */
static bool may_rest(struct member *m, const struct cell *c)
{
    return m->worked && c->idle > 64 && (m->rounds + c->number) % 8;
}

static int settle_cells(struct member *m)
{
    int work = 0;
    for (uint32_t i = 0; i < m->opt.cells; i++) {
        struct cell *c = &m->cell[i];
        if (!c->in || may_rest(m, c))
            continue;
        int done = cell_settle(c);
        c->idle = done ? 0 : c->idle + 1;
        work += done;
    }
    return work;
}

static void tell_life(struct member *m)
{
    m->told_life = true;
    table_set(m->top, TOP_LIFE, m->life);
    table_push(m->top);
}

/* Who asks to be let in, and may be a keeper, is to be left by the others as they like: they die or leave, and what is written to them counts if they had all
 * that this host has opened. Who hangs is not waited for for ever. */
enum { KNOWN_SUSPECTS = 16, KNOWN_LOOKS = 64 };

static int look_whether_known(struct member *m, uint64_t now_ns)
{
    if (m->told_life || now_ns < m->known_ns)
        return 0;
    m->open_ns = m->open_ns ? m->open_ns : now_ns;
    m->known_ns = now_ns + m->opt.heartbeat_ns / KNOWN_LOOKS;
    bool late = now_ns - m->open_ns > KNOWN_SUSPECTS * m->opt.suspect_ns;
    if (!late && !mem_is_known(m->mem))
        return 0;
    tell_life(m);
    m->ring = true;
    return 1;
}

static int settle_views(struct member *m, uint64_t now_ns)
{
    int work = look_whether_known(m, now_ns) + watch(m, now_ns) + keeper_settle(m->keeper, now_ns);
    work += wedge_settle(m, now_ns) + transfer_settle(m);
    member_relayout_again(m);
    if (keeper_broken(m->keeper))
        member_stop(m, keeper_broken(m->keeper));
    return work;
}

/* What can be kept no more is not sent by this host either: it leaves. */
static int settle_versions(struct member *m, uint64_t now_ns)
{
    int work = versions_round(m->opt.versions, now_ns);
    if (versions_failure(m->opt.versions) && m->why_left == NULL) {
        m->why_left = versions_failure(m->opt.versions);
        member_leave(m);
    }
    return work;
}

/* While cells have work, questions are looked for now and then only, unless there were some. */
enum { ASK_ROUNDS = 8 };

static int settle(struct unit *u, uint64_t now_ns)
{
    struct member *m = u->of;
    if (m->broken)
        return 0;
    m->rounds++;
    m->own_budget.pieces = 4;
    m->looked = looks_around(u, &m->look_settle_ns, now_ns);
    if (u->dozes)
        keeper_look(m->keeper, now_ns);
    int work = m->looked ? settle_views(m, now_ns) : 0;
    if (m->rdmc)
        work += rdmc_settle(m, now_ns);
    int cells = settle_cells(m);
    if (cells == 0 || m->asks.busy || m->rounds % ASK_ROUNDS == 0)
        work += asks_settle(m) + relays_settle(m);
    m->worked = cells > 0;
    work += cells;
    if (m->opt.versions)
        work += settle_versions(m, now_ns);
    u->leads = true; /* it has something to do in every round */
    u->broken = m->broken;
    u->renews = m->looked && keeper_renews(m->keeper);
    return work;
}

static uint64_t next_ns(const struct unit *u)
{
    const struct member *m = u->of;
    if (m->broken) /* its host has to say so, and not to sleep */
        return m->settled_ns;
    if (!m->looked) /* nobody sleeps over what was not looked at */
        return m->look_settle_ns;
    uint64_t next = min_u64(m->beat_ns, keeper_next_ns(m->keeper));
    if (m->opt.versions)
        next = min_u64(next, versions_next_ns(m->opt.versions));
    return m->sending.active ? min_u64(next, m->settled_ns + m->opt.heartbeat_ns / 16) : next;
}

static void status(const struct unit *u, struct unit_status *s)
{
    const struct member *m = u->of;
    struct log *log = keeper_log(m->keeper);
    *s = (struct unit_status){.leader = UINT32_MAX};
    if (log)
        log_status(log, s);
    else
        s->role = UNIT_FOLLOWER;
    s->delivered = m->count.delivered;
    s->broken = m->broken;
}

static int offer(struct unit *u, const struct mem_lane_spec *spec, struct err *e)
{
    return relays_client_open(u->of, spec, e);
}

static void renew_open(struct unit *u)
{
    struct member *m = u->of;
    keeper_renew_open(m->keeper);
}

static const char *check(const struct unit *u)
{
    return member_check(u->of);
}

static void member_unit_close(struct unit *u)
{
    member_close(u->of);
}

struct unit member_unit(struct member *m)
{
    static const struct unit_ops ops = {.post = post,
                                        .settle = settle,
                                        .next_ns = next_ns,
                                        .status = status,
                                        .offer = offer,
                                        .renew = renew_open,
                                        .check = check,
                                        .close = member_unit_close};
    return (struct unit){
        .ops = &ops, .of = m, .leads = true, .region = region_number(REGION_MEMBER, 0)};
}

/* ---- sending ---- */

void *member_reserve(struct member *m, uint32_t cell, uint32_t bytes)
{
    CHECK(cell < m->opt.cells);
    return m->broken ? NULL : own_reserve(&m->cell[cell], bytes);
}

void member_commit(struct member *m, uint32_t cell, void *room, uint32_t bytes)
{
    CHECK(cell < m->opt.cells);
    own_commit(&m->cell[cell], room, bytes);
}

void member_release(struct member *m, uint32_t cell, void *room)
{
    CHECK(cell < m->opt.cells);
    own_release(&m->cell[cell], room);
}

int member_send(struct member *m, uint32_t cell, const void *data, uint32_t bytes)
{
    CHECK(cell < m->opt.cells);
    if (bytes > member_message_max(m, cell))
        return ERR_TOOBIG;
    void *room = member_reserve(m, cell, bytes);
    if (room == NULL)
        return ERR_AGAIN;
    memcpy(room, data, bytes);
    member_commit(m, cell, room, bytes);
    return 0;
}

uint32_t member_message_max(const struct member *m, uint32_t cell)
{
    return message_most(&m->cell[cell]);
}

void member_leave(struct member *m)
{
    if (m->leaving)
        return;
    m->leaving = true;
    m->ring = true;
    if (m->phase == MEMBER_OUT)
        m->phase = MEMBER_LEFT;
    table_set(m->top, TOP_LEAVES, m->life);
}

const char *member_leaves_why(const struct member *m)
{
    return m->why_left;
}

void member_set_wall(struct member *m, uint64_t wall_ns)
{
    m->wall_ns = wall_ns;
}

uint64_t member_time(const struct member *m, uint32_t cell)
{
    const struct cell *c = &m->cell[cell];
    return is_in_view(m) && c->keep && member_has_state(m, cell) ? kept_time(c) : 0;
}

uint64_t member_persisted(const struct member *m, uint32_t cell, uint32_t host)
{
    CHECK(cell < m->opt.cells);
    const struct cell *c = &m->cell[cell];
    if (c->keep == NULL || !is_in_view(m) || !in_set(c->members, host))
        return 0;
    return stamp(m->view->vid, cell_count(c, host, CELL_PERSISTED));
}

bool member_left(const struct member *m)
{
    return m->phase == MEMBER_LEFT && keeper_is_relieved(m->keeper);
}

static void ask_for_layout(struct member *m)
{
    table_set(m->top, TOP_WANTS, table_get(m->top, m->opt.me, TOP_WANTS) + 1);
    m->relayout_ns = m->settled_ns + 2 * m->opt.suspect_ns;
    m->ring = true;
}

/* A view that is ending may be laid out already: it is not the one that is asked for. */
void member_relayout(struct member *m)
{
    bool ends = m->phase == MEMBER_WEDGED || m->phase == MEMBER_FINISH;
    m->relayout_after = m->view->vid + ends;
    m->relayout_ns = 0;
    if (m->phase == MEMBER_OPEN)
        ask_for_layout(m);
}

/* Said again until the view is there: who leads the keepers next may take a request for one that was heeded. */
void member_relayout_again(struct member *m)
{
    if (m->relayout_after == 0 || m->phase != MEMBER_OPEN)
        return;
    if (m->view->vid > m->relayout_after)
        m->relayout_after = 0;
    else if (m->settled_ns >= m->relayout_ns)
        ask_for_layout(m);
}

/* ---- looking ---- */

const struct view *member_view(const struct member *m)
{
    return is_in_view(m) ? m->view : NULL;
}

bool member_wedged(const struct member *m)
{
    return m->phase == MEMBER_WEDGED || m->phase == MEMBER_FINISH;
}

bool member_has_state(const struct member *m, uint32_t cell)
{
    const struct cell *c = &m->cell[cell];
    return c->in && c->has_state && c->number_at >= c->skip_to;
}

bool member_is_behind(const struct member *m, uint32_t cell)
{
    return m->cell[cell].loaded || restore_reads(&m->cell[cell]);
}

uint64_t member_place(const struct member *m, uint32_t cell, uint32_t sender, const void *data)
{
    const struct cell *c = &m->cell[cell];
    const unsigned char *at = (const unsigned char *)data - sizeof(struct record), *ring;
    uint64_t behind; /* a position behind it, by less than a ring */
    if (large_place(c, sender, data, &behind))
        return behind;
    if (sender == m->opt.me) {
        const struct own_stream *o = &c->own;
        bool second = o->ring[1] && at >= o->ring[1] && at < o->ring[1] + c->opt.ring_bytes;
        ring = o->ring[second];
        behind = o->head;
    } else {
        const struct source_stream *s = &c->source[set_rank(m->view->cell[cell].senders, sender)];
        ring = c->from[s->ring][sender]->ring;
        behind = s->pos;
    }
    uint64_t back = (behind - (uint64_t)(at - ring)) & (c->opt.ring_bytes - 1);
    return behind - (back ? back : c->opt.ring_bytes);
}

uint64_t member_delivers_from(const struct member *m, uint32_t cell)
{
    return m->cell[cell].skip_to;
}

void member_column_set(struct member *m, uint32_t cell, uint32_t column, uint64_t value)
{
    struct cell *c = &m->cell[cell];
    CHECK(column < MEMBER_COLUMNS);
    if (c->mine && value > cell_word(c, m->opt.me, CELL_USER + column))
        cell_set(c, CELL_USER + column, value);
}

uint64_t member_column(const struct member *m, uint32_t cell, uint32_t column, uint32_t host)
{
    const struct cell *c = &m->cell[cell];
    CHECK(column < MEMBER_COLUMNS);
    return c->in && in_set(c->members, host) ? cell_word(c, host, CELL_USER + column) : 0;
}

uint64_t member_column_min(const struct member *m, uint32_t cell, uint32_t column)
{
    uint64_t least = UINT64_MAX;
    const struct cell *c = &m->cell[cell];
    for (uint64_t rest = c->in ? c->members : 0; rest; rest = set_rest(rest))
        least = min_u64(least, member_column(m, cell, column, set_first(rest)));
    return c->in ? least : 0;
}

void member_counts(const struct member *m, struct member_counts *out)
{
    *out = m->count;
}

const char *member_broken(const struct member *m)
{
    return m->broken;
}

struct keeper *member_keeper(const struct member *m)
{
    return m->keeper;
}

/* ---- opening ---- */

static const char *wrong_cell(const struct cell_options *c)
{
    if (c->ring_bytes < MEM_PAGE_BYTES || (c->ring_bytes & (c->ring_bytes - 1)))
        return "its ring is to be a power of two, of at least 4 KiB";
    if (c->message_max > c->ring_bytes / 8)
        return "its largest message is to fit eight times into its ring";
    if (c->large_max && c->mode != CELL_MEMORY && c->mode != CELL_RAW)
        return "large messages are not kept on disks";
    if (c->large_max && c->large_max <= c->message_max)
        return "its large messages are to be larger than the others";
    if (c->large_max && c->message_max < sizeof(struct large_head))
        return "its messages are to be of up to 24 bytes at least, if it has large ones";
    if (c->large_window > LARGE_WINDOW_MAX)
        return "it may have at most 16 large messages of a sender under way";
    if ((uint64_t)c->large_max * c->large_window > LARGE_BYTES_MOST)
        return "all large messages of a sender that may be under way are to have at most 2 GiB";
    return NULL;
}

static uint64_t large_most(uint32_t block_bytes)
{
    return RDMC_BLOCKS_MAX * (uint64_t)(block_bytes - BLOCK_HEAD_BYTES);
}

static int take_cells(struct member *m, struct err *e)
{
    struct cell_options *copy = calloc(m->opt.cells, sizeof(*copy));
    m->cell_options = copy;
    if (copy == NULL)
        return err_set(e, ERR_NOMEM, "group: no memory for %u cells", m->opt.cells);
    for (uint32_t i = 0; i < m->opt.cells; i++) {
        copy[i] = m->opt.cell[i];
        copy[i].ring_bytes = copy[i].ring_bytes ? copy[i].ring_bytes : CELL_RING_BYTES;
        copy[i].message_max = copy[i].message_max ? copy[i].message_max : copy[i].ring_bytes / 8;
        copy[i].deliver_bytes =
            copy[i].deliver_bytes ? copy[i].deliver_bytes : copy[i].ring_bytes / 4;
        copy[i].large_window = copy[i].large_window ? copy[i].large_window : LARGE_WINDOW_DEFAULT;
        const char *wrong = wrong_cell(&copy[i]);
        if (wrong == NULL && copy[i].large_max > large_most(m->opt.block_bytes))
            wrong = "its large messages are to have at most 4096 blocks";
        if (wrong)
            return err_set(e, ERR_INVALID, "group: cell %u: %s", i, wrong);
    }
    m->opt.cell = copy;
    return 0;
}

static int check_options(const struct member_options *o, struct err *e)
{
    if (o->hosts == 0 || o->hosts > GROUP_HOSTS_MAX || o->me >= o->hosts)
        return err_set(e, ERR_INVALID, "group: host %u of %u; there may be 1 to %d hosts", o->me,
                       o->hosts, GROUP_HOSTS_MAX);
    if (o->cells == 0 || o->cells > GROUP_CELLS_MAX)
        return err_set(e, ERR_INVALID, "group: %u cells; there may be 1 to %d", o->cells,
                       GROUP_CELLS_MAX);
    if (o->keepers_count == 0 || o->keepers_count > GROUP_KEEPERS_MAX ||
        o->keepers_count > o->hosts)
        return err_set(e, ERR_INVALID, "group: %u keepers; 1 to %d of the hosts are to be",
                       o->keepers_count, GROUP_KEEPERS_MAX);
    if (o->block_bytes &&
        (o->block_bytes < 2 * BLOCK_HEAD_BYTES || o->block_bytes > BLOCK_BYTES_MOST ||
         (o->block_bytes & (o->block_bytes - 1))))
        return err_set(e, ERR_INVALID,
                       "group: blocks of %u bytes; a power of two is wanted, 128 bytes to 64 MiB",
                       o->block_bytes);
    return 0;
}

static uint64_t or_ms(uint64_t ns, uint64_t ms)
{
    return ns ? ns : ms * 1000000;
}

static void take_times(struct member_options *o)
{
    o->heartbeat_ns = or_ms(o->heartbeat_ns, 15);
    o->suspect_ns = or_ms(o->suspect_ns, 60);
    o->stagger_ns = o->stagger_ns ? o->stagger_ns : 200000;
    o->detach_ns = or_ms(o->detach_ns, 50);
    o->start_ns = or_ms(o->start_ns, 200);
}

static int top_open(struct member *m, struct err *e)
{
    uint32_t nodes[GROUP_HOSTS_MAX];
    enum table_kind kind[TOP_WORDS];
    enum mem_birth birth;
    for (uint32_t i = 0; i < TOP_WORDS; i++)
        kind[i] = i == TOP_CLAIMS ? TABLE_FREE : TABLE_RISES;
    for (uint32_t h = 0; h < m->opt.hosts; h++)
        nodes[h] = h;
    int rc = mem_region_open(m->mem, region_number(REGION_MEMBER, 0), &birth, e);
    if (rc == 0)
        rc = table_open(m->mem,
                        &(struct table_spec){.kind = kind,
                                             .nodes = nodes,
                                             .words = TOP_WORDS,
                                             .ranks = m->opt.hosts,
                                             .me = m->opt.me,
                                             .region = region_number(REGION_MEMBER, 0),
                                             .lane = LANE_ROW,
                                             .common = true},
                        &m->top, e);
    if (rc)
        return rc;
    m->life = ((uint64_t)m->mem->life + 1) << 16;
    if (m->mem->ops->is_known == NULL)
        tell_life(m);
    return 0;
}

static int own_keeper_open(struct member *m, struct err *e)
{
    const struct member_options *o = &m->opt;
    struct cell_layout *layout = calloc(o->cells, sizeof(*layout));
    m->layout = layout;
    if (layout == NULL)
        return err_set(e, ERR_NOMEM, "group: no memory for %u layouts", o->cells);
    for (uint32_t i = 0; i < o->cells; i++) {
        layout[i] = o->cell[i].layout;
        layout[i].hosts = m->cell[i].hosts;
        layout[i].members_min = layout[i].members_min ? layout[i].members_min : 1;
        layout[i].senders = layout[i].senders ? layout[i].senders : UINT64_MAX;
    }
    unsigned char kept[GROUP_CELLS_MAX];
    for (uint32_t i = 0; i < o->cells; i++)
        kept[i] = o->cell[i].mode == CELL_DURABLE  ? KEPT_ALL
                  : o->cell[i].mode == CELL_LOGGED ? KEPT_SOME
                                                   : KEPT_NOT;
    return keeper_open(
        &(struct keeper_options){
            .mem = m->mem,
            .hosts = o->hosts,
            .me = o->me,
            .keepers = o->keepers,
            .keepers_count = o->keepers_count,
            .keepers_stay = o->keepers_stay,
            .layout = {.cell = layout, .cells = o->cells, .fill = o->layout, .ctx = o->layout_ctx},
            .view_majority = o->view_majority,
            .cells = o->cells,
            .top = m->top,
            .heartbeat_ns = o->heartbeat_ns,
            .suspect_ns = o->suspect_ns,
            .stagger_ns = o->stagger_ns,
            .detach_ns = o->detach_ns,
            .start_ns = o->start_ns,
            .seed = o->seed,
            .budget = m->budget,
            .disk = o->disk,
            .kept = o->versions ? kept : NULL,
            .stateless = m->state == NULL},
        &m->keeper, e);
}

static int open_parts(struct member *m, struct err *e)
{
    int rc = take_cells(m, e);
    m->cell = rc ? NULL : calloc(m->opt.cells, sizeof(*m->cell));
    m->report = rc ? NULL : calloc(m->opt.cells, sizeof(*m->report));
    if (rc == 0 && (!m->cell || !m->report))
        rc = err_set(e, ERR_NOMEM, "group: no memory for %u cells", m->opt.cells);
    if (rc == 0)
        rc = view_open(m->opt.hosts, m->opt.cells, &m->view, e);
    if (rc == 0)
        rc = view_open(m->opt.hosts, m->opt.cells, &m->next, e);
    if (rc == 0)
        rc = top_open(m, e);
    for (uint32_t i = 0; rc == 0 && i < m->opt.cells; i++)
        rc = cell_open(m, i, e);
    if (rc == 0)
        rc = asks_open(m, e);
    if (rc == 0)
        rc = relays_open(m, e);
    if (rc == 0)
        rc = transfer_open(m, e);
    if (rc == 0)
        rc = rdmc_open(m, e);
    return rc ? rc : own_keeper_open(m, e);
}

int member_open(const struct member_options *o, struct member **out, struct err *e)
{
    int rc = check_options(o, e);
    if (rc)
        return rc;
    struct member *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return err_set(e, ERR_NOMEM, "group: no memory for a member");
    m->opt = *o;
    memcpy(m->keepers, o->keepers, o->keepers_count * sizeof(m->keepers[0]));
    m->opt.keepers = m->keepers;
    m->mem = o->mem;
    take_times(&m->opt);
    m->opt.block_bytes = o->block_bytes ? o->block_bytes : BLOCK_BYTES_DEFAULT;
    m->budget = o->budget ? o->budget : &m->own_budget;
    rc = open_parts(m, e);
    if (rc == 0)
        rc = restore_open(m, e);
    if (rc) {
        member_close(m);
        return rc;
    }
    restore_tell(m);
    *out = m;
    return 0;
}

void member_close(struct member *m)
{
    if (m == NULL)
        return;
    keeper_close(m->keeper);
    transfer_close(m);
    if (PLANTED(group_copy_before_trim))
        planted_copy_end(m);
    relays_close(m);
    for (uint32_t i = 0; m->cell && i < m->opt.cells; i++)
        cell_close(&m->cell[i]);
    asks_close(m);
    rdmc_close(m);
    table_close(m->top);
    view_close(m->view);
    view_close(m->next);
    free(m->cell_options);
    free(m->layout);
    free(m->cell);
    free(m->report);
    free(m);
}

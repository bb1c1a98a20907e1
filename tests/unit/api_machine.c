/* A user's machine as a replica calls it: with the pair for small states, or with streams. */
#include "api/machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { STATE_BYTES = 50000, PIECE = 1000 };

/* The user's side. */
struct user {
    unsigned char state[STATE_BYTES];
    size_t at, loaded; /* bytes */
    bool fails;
    long slow_ms;
    uint32_t closes, broken_off;
};

static char said[SAY_LINE_BYTES];
static uint32_t lines;

static void on_line(void *ctx, enum say_level level, const char *line)
{
    (void)ctx;
    (void)level;
    lines++;
    strncpy(said, line, sizeof(said) - 1);
}

static void dawdle(const struct user *u)
{
    nanosleep(&(struct timespec){.tv_nsec = u->slow_ms * 1000000}, NULL);
}

static int save(void *ctx, uint32_t group, void **data, size_t *bytes)
{
    struct user *u = ctx;
    dawdle(u);
    if (u->fails || group != 3)
        return -1;
    *data = malloc(STATE_BYTES);
    assert_non_null(*data);
    memcpy(*data, u->state, STATE_BYTES);
    *bytes = STATE_BYTES;
    return 0;
}

static int load(void *ctx, uint32_t group, const void *data, size_t bytes)
{
    struct user *u = ctx;
    dawdle(u);
    if (u->fails || group != 3 || bytes != STATE_BYTES)
        return -1;
    memcpy(u->state, data, bytes);
    u->loaded = bytes;
    return 0;
}

static void *save_open(void *ctx, uint32_t group, uint64_t *bytes)
{
    struct user *u = ctx;
    u->at = 0;
    assert_true(group == 3 && *bytes == TRAM_BYTES_UNKNOWN);
    return u->fails ? NULL : u->state;
}

static int save_next(void *ctx, uint32_t group, void *from, void *out, uint32_t room)
{
    struct user *u = ctx;
    size_t left = STATE_BYTES - u->at, n = left < room ? left : room;
    assert_true(group == 3 && from == u->state);
    memcpy(out, u->state + u->at, n);
    u->at += n;
    return u->fails ? -1 : (int)n;
}

static void save_close(void *ctx, uint32_t group, void *from)
{
    struct user *u = ctx;
    assert_true(group == 3 && from == u->state);
    u->closes++;
}

static int load_open(void *ctx, uint32_t group, uint64_t bytes)
{
    struct user *u = ctx;
    assert_true(group == 3 && bytes == TRAM_BYTES_UNKNOWN);
    u->loaded = 0;
    return 0;
}

static int load_next(void *ctx, uint32_t group, const void *data, uint32_t bytes)
{
    struct user *u = ctx;
    assert_true(group == 3 && u->loaded + bytes <= STATE_BYTES);
    memcpy(u->state + u->loaded, data, bytes);
    u->loaded += bytes;
    return u->fails ? -1 : 0;
}

static int load_close(void *ctx, uint32_t group, bool whole)
{
    struct user *u = ctx;
    assert_int_equal(group, 3);
    u->broken_off += !whole;
    return u->fails ? -1 : 0;
}

static const struct tram_machine pair = {.save = save, .load = load};
static const struct tram_machine streams = {.save_open = save_open,
                                            .save_next = save_next,
                                            .save_close = save_close,
                                            .load_open = load_open,
                                            .load_next = load_next,
                                            .load_close = load_close};

static struct api_machine machine_of(struct user *u, const struct tram_machine *calls)
{
    lines = 0;
    said[0] = '\0';
    return (struct api_machine){.calls = *calls,
                                .ctx = u,
                                .group = 3,
                                .heartbeat_ns = 50 * UINT64_C(1000000),
                                .group_name = "stock",
                                .say = {.line = on_line}};
}

/* Moves a state from one to the other; false if either could not. */
static bool move(struct api_machine *from, struct api_machine *to)
{
    unsigned char piece[PIECE];
    uint64_t bytes;
    void *saving = api_save_open(from, &bytes);
    if (saving == NULL || api_load_open(to, bytes) < 0)
        return false;
    int n;
    bool good = true;
    while (good && (n = api_save_next(from, saving, piece, PIECE)) > 0)
        good = api_load_next(to, piece, (uint32_t)n) == 0;
    good &= n == 0;
    api_save_close(from, saving);
    return api_load_close(to, good) == 0 && good;
}

static void fill(struct user *u)
{
    *u = (struct user){0};
    for (size_t i = 0; i < STATE_BYTES; i++)
        u->state[i] = (unsigned char)(i * 7);
}

static void machine__moves_a_state_either_way(void **state)
{
    (void)state;
    static const struct tram_machine *const kinds[] = {&pair, &streams};
    for (uint32_t k = 0; k < 2; k++) {
        static struct user a, b;
        fill(&a);
        b = (struct user){0};
        struct api_machine from = machine_of(&a, kinds[k]), to = machine_of(&b, kinds[k]);
        assert_true(move(&from, &to));
        assert_memory_equal(a.state, b.state, STATE_BYTES);
        assert_null(from.failure);
        assert_null(to.failure);
        assert_int_equal(lines, 0);
        void *data;
        size_t bytes;
        assert_true(api_save_whole(&from, &data, &bytes));
        assert_int_equal(bytes, STATE_BYTES);
        assert_memory_equal(data, a.state, STATE_BYTES);
        free(data);
        api_machine_fini(&from);
        api_machine_fini(&to);
    }
}

/* A machine that cannot is an error that says what it could not do. */
static void machine__says_what_it_could_not_do(void **state)
{
    (void)state;
    static const struct tram_machine *const kinds[] = {&pair, &streams};
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t who = 0; who < 2; who++) {
            static struct user a, b;
            fill(&a);
            b = (struct user){.fails = who == 1};
            a.fails = who == 0;
            struct api_machine from = machine_of(&a, kinds[k]), to = machine_of(&b, kinds[k]);
            assert_false(move(&from, &to));
            const char *failure = who == 0 ? from.failure : to.failure;
            assert_non_null(failure);
            assert_non_null(strstr(failure, who == 0 ? "could not save" : "could not load"));
            api_machine_fini(&from);
            api_machine_fini(&to);
        }
}

/* A call of the pair that takes longer than a heartbeat is warned of, once, with the remedy. */
static void machine__warns_of_slow_calls_once(void **state)
{
    (void)state;
    static struct user a, b;
    fill(&a);
    b = (struct user){0};
    a.slow_ms = 60;
    struct api_machine from = machine_of(&a, &pair), to = machine_of(&b, &pair);
    assert_true(move(&from, &to));
    assert_int_equal(lines, 1);
    assert_non_null(strstr(said, "group stock: save of 50000 bytes took "));
    assert_non_null(strstr(said, "save_open"));
    assert_true(move(&from, &to));
    assert_int_equal(lines, 1);
    b.slow_ms = 60;
    assert_true(move(&from, &to));
    assert_int_equal(lines, 2); /* of the other one */
    assert_non_null(strstr(said, "load of 50000 bytes took "));
    api_machine_fini(&from);
    api_machine_fini(&to);
}

static void machine__has_all_of_the_streams_or_none(void **state)
{
    (void)state;
    struct tram_machine half = streams;
    assert_null(api_machine_mistake(&pair));
    assert_null(api_machine_mistake(&streams));
    half.load_close = NULL;
    assert_non_null(api_machine_mistake(&half));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machine__moves_a_state_either_way),
        cmocka_unit_test(machine__says_what_it_could_not_do),
        cmocka_unit_test(machine__warns_of_slow_calls_once),
        cmocka_unit_test(machine__has_all_of_the_streams_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

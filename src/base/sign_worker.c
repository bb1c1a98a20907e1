/* The thread signs and checks whatever has piled up, in one go, and then says once that it is done. */
#include "base/sign.h"

#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>

_Static_assert(SIGN_BYTES == crypto_sign_BYTES, "libsodium's signatures are ours");
_Static_assert(SIGN_KEY_BYTES == crypto_sign_SEEDBYTES, "libsodium's keys are ours");
_Static_assert(SIGN_KEY_BYTES == crypto_sign_PUBLICKEYBYTES, "libsodium's keys are ours");

struct queue {
    struct sign_job *first, **end;
};

struct worker {
    struct signer signer; /* first */
    struct sign_secret secret;
    unsigned char (*public_key)[SIGN_KEY_BYTES];
    uint32_t signers;
    void (*ready)(void *ctx);
    void *ctx;
    pthread_t thread;

    pthread_mutex_t lock; /* of the rest */
    pthread_cond_t wanted;
    struct queue todo, done;
    bool ends;
    _Atomic bool any_done; /* so that a poll that finds nothing takes no lock */
};

static void queue_init(struct queue *q)
{
    q->first = NULL;
    q->end = &q->first;
}

static void queue_add(struct queue *q, struct sign_job *j)
{
    j->next = NULL;
    *q->end = j;
    q->end = &j->next;
}

static struct sign_job *queue_take_all(struct queue *q)
{
    struct sign_job *first = q->first;
    queue_init(q);
    return first;
}

static bool run(const struct worker *w, struct sign_job *j)
{
    if (!j->check)
        sign_now(&w->secret, &j->text, j->signature);
    return !j->check || (j->text.signer < w->signers &&
                         sign_is_good(w->public_key[j->text.signer], &j->text, j->signature));
}

/* Waits for jobs; NULL: it is over. */
static struct sign_job *next_jobs(struct worker *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->todo.first && !w->ends)
        pthread_cond_wait(&w->wanted, &w->lock);
    struct sign_job *jobs = w->ends ? NULL : queue_take_all(&w->todo);
    pthread_mutex_unlock(&w->lock);
    return jobs;
}

static void hand_back(struct worker *w, struct sign_job *j)
{
    pthread_mutex_lock(&w->lock);
    queue_add(&w->done, j);
    pthread_mutex_unlock(&w->lock);
    atomic_store_explicit(&w->any_done, true, memory_order_release);
}

static bool ends(struct worker *w)
{
    pthread_mutex_lock(&w->lock);
    bool yes = w->ends;
    pthread_mutex_unlock(&w->lock);
    return yes;
}

static void *work(void *arg)
{
    struct worker *w = arg;

    for (struct sign_job *j; (j = next_jobs(w)) != NULL;)
        for (struct sign_job *next; j && !ends(w); j = next) {
            next = j->next;
            j->good = run(w, j);
            hand_back(w, j);
            if (w->ready)
                w->ready(w->ctx);
        }
    return NULL;
}

static void worker_submit(struct signer *s, struct sign_job *j)
{
    struct worker *w = (struct worker *)s;

    pthread_mutex_lock(&w->lock);
    queue_add(&w->todo, j);
    pthread_cond_signal(&w->wanted);
    pthread_mutex_unlock(&w->lock);
}

static int worker_poll(struct signer *s)
{
    struct worker *w = (struct worker *)s;
    int count = 0;

    if (!atomic_load_explicit(&w->any_done, memory_order_acquire))
        return 0;
    pthread_mutex_lock(&w->lock);
    atomic_store_explicit(&w->any_done, false, memory_order_relaxed);
    struct sign_job *j = queue_take_all(&w->done);
    pthread_mutex_unlock(&w->lock);
    for (struct sign_job *next; j; j = next, count++) {
        next = j->next;
        j->state = j->good ? SIGN_GOOD : SIGN_BAD;
    }
    return count;
}

static void worker_free(struct worker *w)
{
    pthread_cond_destroy(&w->wanted);
    pthread_mutex_destroy(&w->lock);
    sign_secret_close(&w->secret);
    free(w->public_key);
    free(w);
}

static void worker_close(struct signer *s)
{
    struct worker *w = (struct worker *)s;

    pthread_mutex_lock(&w->lock);
    w->ends = true;
    pthread_cond_signal(&w->wanted);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    worker_free(w);
}

static const struct signer_ops worker_ops = {
    .submit = worker_submit, .poll = worker_poll, .close = worker_close};

/* Signals are for the threads that the program has made itself. */
static int thread_start(struct worker *w)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&w->thread, NULL, work, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static int take_keys(struct worker *w, const struct sign_worker_options *o, struct err *e)
{
    unsigned char own[SIGN_KEY_BYTES];

    w->public_key = calloc(o->signers, SIGN_KEY_BYTES);
    if (!w->public_key)
        return err_set(e, ERR_NOMEM, "signatures: no memory for %u keys", o->signers);
    for (uint32_t i = 0; i < o->signers; i++)
        memcpy(w->public_key[i], o->public_key[i], SIGN_KEY_BYTES);
    if (sodium_init() < 0 || crypto_sign_seed_keypair(own, w->secret.key, o->secret) != 0)
        return err_set(e, ERR_SYSTEM, "signatures: libsodium cannot be used on this machine");
    return 0;
}

int sign_worker_open(const struct sign_worker_options *o, struct signer **out, struct err *e)
{
    struct worker *w = calloc(1, sizeof(*w));

    if (!w)
        return err_set(e, ERR_NOMEM, "signatures: no memory");
    w->signer.ops = &worker_ops;
    w->signers = o->signers;
    w->ready = o->ready;
    w->ctx = o->ctx;
    queue_init(&w->todo);
    queue_init(&w->done);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wanted, NULL);
    int rc = take_keys(w, o, e);
    if (rc == 0 && thread_start(w) != 0)
        rc = err_set(e, ERR_SYSTEM, "signatures: no thread can be started: see ulimit -u");
    if (rc == 0)
        *out = &w->signer;
    else
        worker_free(w);
    return rc;
}

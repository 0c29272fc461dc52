/* An intrusive doubly linked list. A node that is in no list points to itself. */
#ifndef TACTUS_BASE_LIST_H
#define TACTUS_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next;
    struct list *prev;
};

/* The object that contains list node `node` as its member `member`. */
#define LIST_ENTRY(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

static inline void list_init(struct list *l)
{
    l->next = l;
    l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}

static inline void list_push_back(struct list *l, struct list *node)
{
    node->prev = l->prev;
    node->next = l;
    l->prev->next = node;
    l->prev = node;
}

/* Takes `node` out of its list; harmless when it is in none. */
static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

/* The first node, taken out; NULL when empty. */
static inline struct list *list_pop(struct list *l)
{
    if (list_empty(l)) {
        return NULL;
    }
    struct list *node = l->next;
    list_remove(node);
    return node;
}

/* Moves all nodes of `from` to the empty list `to`. */
static inline void list_take(struct list *to, struct list *from)
{
    list_init(to);
    if (!list_empty(from)) {
        to->next = from->next;
        to->prev = from->prev;
        to->next->prev = to;
        to->prev->next = to;
        list_init(from);
    }
}

#endif

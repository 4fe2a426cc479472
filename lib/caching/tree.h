/* SPDX-License-Identifier: MIT
 *
 * Ordered sets of blocks: treaps with the links inside the block. A treap
 * because inserting, removing and stepping are short, and the sets are small
 * and change at every event; the order is the caller's comparison.
 */
#ifndef VS_CACHING_TREE_H
#define VS_CACHING_TREE_H

#include <stdbool.h>
#include <stdint.h>

struct vs_tree_node {
	struct vs_tree_node *parent, *child[2];
	uint32_t priority; /* the parent's is not lower */
};

struct vs_tree {
	struct vs_tree_node *root;
	uint32_t seed;
};

/* Is `left` before `right`? A strict order. */
typedef bool (*vs_tree_before)(const struct vs_tree_node *left, const struct vs_tree_node *right);

static inline void vs_tree_replace(struct vs_tree *tree, struct vs_tree_node *old, struct vs_tree_node *fresh)
{
	struct vs_tree_node *parent = old->parent;

	if (!parent)
		tree->root = fresh;
	else
		parent->child[parent->child[1] == old] = fresh;
	if (fresh)
		fresh->parent = parent;
}

/* Lift a node above its parent. */
static inline void vs_tree_rotate(struct vs_tree *tree, struct vs_tree_node *node)
{
	struct vs_tree_node *parent = node->parent;
	bool side = parent->child[1] == node;
	struct vs_tree_node *inner = node->child[!side];

	vs_tree_replace(tree, parent, node);
	parent->child[side] = inner;
	if (inner)
		inner->parent = parent;
	node->child[!side] = parent;
	parent->parent = node;
}

static inline void vs_tree_insert(struct vs_tree *tree, struct vs_tree_node *node, vs_tree_before before)
{
	struct vs_tree_node *at = tree->root, *parent = NULL;
	bool side = false;

	while (at) {
		parent = at;
		side = !before(node, at);
		at = at->child[side];
	}
	/* xorshift32 (Marsaglia 2003); the same numbers every time, so that runs can be compared. */
	tree->seed = tree->seed ? tree->seed : 2463534242U;
	tree->seed ^= tree->seed << 13;
	tree->seed ^= tree->seed >> 17;
	tree->seed ^= tree->seed << 5;
	*node = (struct vs_tree_node){.parent = parent, .priority = tree->seed};
	if (!parent)
		tree->root = node;
	else
		parent->child[side] = node;
	while (node->parent && node->parent->priority < node->priority)
		vs_tree_rotate(tree, node);
}

static inline void vs_tree_remove(struct vs_tree *tree, struct vs_tree_node *node)
{
	while (node->child[0] && node->child[1])
		vs_tree_rotate(tree, node->child[node->child[1]->priority > node->child[0]->priority]);
	vs_tree_replace(tree, node, node->child[0] ? node->child[0] : node->child[1]);
}

static inline struct vs_tree_node *vs_tree_end(const struct vs_tree *tree, bool side)
{
	struct vs_tree_node *node = tree->root;

	while (node && node->child[side])
		node = node->child[side];
	return node;
}

static inline struct vs_tree_node *vs_tree_first(const struct vs_tree *tree)
{
	return vs_tree_end(tree, false);
}

static inline struct vs_tree_node *vs_tree_last(const struct vs_tree *tree)
{
	return vs_tree_end(tree, true);
}

/* The neighbour in order: the next with side true, the previous with false. */
static inline struct vs_tree_node *vs_tree_step(const struct vs_tree_node *node, bool side)
{
	struct vs_tree_node *at;

	if (node->child[side]) {
		at = node->child[side];
		while (at->child[!side])
			at = at->child[!side];
		return at;
	}
	while (node->parent && node->parent->child[side] == node)
		node = node->parent;
	return node->parent;
}

static inline struct vs_tree_node *vs_tree_next(const struct vs_tree_node *node)
{
	return vs_tree_step(node, true);
}

static inline struct vs_tree_node *vs_tree_previous(const struct vs_tree_node *node)
{
	return vs_tree_step(node, false);
}

/* The first that is not before the key. */
static inline struct vs_tree_node *vs_tree_lower_bound(const struct vs_tree *tree, const struct vs_tree_node *key,
                                                       vs_tree_before before)
{
	struct vs_tree_node *at = tree->root, *found = NULL;

	while (at) {
		if (before(at, key)) {
			at = at->child[1];
		} else {
			found = at;
			at = at->child[0];
		}
	}
	return found;
}

#endif

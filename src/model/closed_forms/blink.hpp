// Blink (BLK): what links allow, by counting. No start-up. b: bandwidth of a link in each direction, bytes/s. Seconds.
#pragma once

namespace plait::closed_forms {

// Broadcast on four fully connected GPUs: two opposite rings have half of the message each, n/(2b); three trees, which
// forward what the root sends each child, n/(3b) (BLK-02, BLK-03).
double two_rings_broadcast_seconds(double bytes, double bandwidth);
double three_trees_broadcast_seconds(double bytes, double bandwidth);

// All-reduce, ours: r rings that share no link and are used in both directions, (p-1)/p n/(r b) (BLK-11).
double rings_all_reduce_seconds(double bytes, int ranks, int rings, double bandwidth);
// All-reduce in a group of g, each pair joined: every GPU combines one chunk of g and forwards it, 2 n/(g b) (BLK-12).
double clique_all_reduce_seconds(double bytes, int ranks, double bandwidth);
// All-reduce, ours: spanning trees of which so many, not only whole ones, can be packed into the links: n/(tau b).
double packed_trees_seconds(double bytes, double trees, double bandwidth);

}  // namespace plait::closed_forms

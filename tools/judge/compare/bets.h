/* bets.h - bets against a claim about chances: the capital of a bet against a true claim is a
 * nonnegative supermartingale, so that it ever reaches c times its beginning with a chance of at
 * most 1/c (Ville's inequality). */
#ifndef SB_COMPARE_BETS_H
#define SB_COMPARE_BETS_H

/* The shares of the capital that the bets on one event stake. */
enum { SB_STAKES = 2 };

/* Adds an observation to the logarithms of the capitals of the bets that an event with a chance of
 * at most `chance` (0 < chance < 1) happens too often. Returns the largest. */
double sb_bet_on_event(double logs[SB_STAKES], int happened, double chance);

#endif

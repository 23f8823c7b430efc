_borough_complete() {
    local IFS=$'\013'
    local space=true
    if compopt +o nospace 2> /dev/null; then
        space=false
    fi
    # Bash ends words at = and : too. They are put together again, up to the cursor.
    local breaks="" words=() word last i
    [[ "$COMP_WORDBREAKS" == *=* ]] && breaks+="="
    [[ "$COMP_WORDBREAKS" == *:* ]] && breaks+=":"
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word="${COMP_WORDS[i]}"
        if ((i == COMP_CWORD)) && [[ -z "$breaks" || "$word" != ["$breaks"]* ]]; then
            word="$2"
        fi
        last=$((${#words[@]} - 1))
        if [[ -n "$breaks" && -n "$word" ]] && ((last > 0)) &&
            [[ "$word" == ["$breaks"]* || "${COMP_WORDS[i - 1]}" == *["$breaks"] ]]; then
            words[last]+="$word"
        else
            words+=("$word")
        fi
    done
    last=$((${#words[@]} - 1))
    COMPREPLY=( $( \
        _CLAP_IFS="$IFS" \
        _CLAP_COMPLETE_INDEX="$last" \
        _CLAP_COMPLETE_COMP_TYPE="$COMP_TYPE" \
        _CLAP_COMPLETE_SPACE="$space" \
        VARIABLE="bash" \
        PROGRAM -- "${words[@]}" \
    ) )
    if [[ $? != 0 ]]; then
        unset COMPREPLY
        return
    fi
    # Only what stands behind the last of them is replaced.
    word="${words[last]}"
    if [[ -n "$breaks" && "$word" == *["$breaks"]* ]]; then
        word="${word%"${word##*["$breaks"]}"}"
        COMPREPLY=("${COMPREPLY[@]#"$word"}")
    fi
    if [[ $space == false && "${COMPREPLY-}" =~ [=/:]$ ]]; then
        compopt -o nospace
    fi
}
if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -o nospace -o bashdefault -o nosort -F _borough_complete borough
else
    complete -o nospace -o bashdefault -F _borough_complete borough
fi
